# Every library slipway uses, by the name the rooms use. All but ONNX are Debian packages (scripts/setup.sh names them);
# ONNX's C++ library is built from the sources in the `onnx` package into SLIPWAY_DEPS by the same script.
set(SLIPWAY_DEPS "${CMAKE_SOURCE_DIR}/build/deps" CACHE PATH
  "Where scripts/setup.sh has built other projects' libraries: onnx, simdjson, archives")
find_package(absl REQUIRED)
# Debian's package holds abseil both as shared libraries and as archives and names the former: 28 of them, which is a
# third of the time a small conversion takes. Where there is an archive, it is linked. (Not into libslipway.so: the
# archives are made for programs, with thread-local variables that a library cannot have. SLIPWAY_ABSL_LIBRARIES is for
# it, or cmake/Archives.cmake.)
set(SLIPWAY_ABSL_LIBRARIES "")
get_property(imported DIRECTORY PROPERTY IMPORTED_TARGETS)
foreach(target IN LISTS imported)
  get_target_property(configurations ${target} IMPORTED_CONFIGURATIONS)
  if(target MATCHES "^absl::" AND configurations)
    foreach(configuration IN LISTS configurations)
      get_target_property(location ${target} IMPORTED_LOCATION_${configuration})
      if(location AND NOT location MATCHES "_test|_mock")
        list(APPEND SLIPWAY_ABSL_LIBRARIES "${location}")
      endif()
      string(REGEX REPLACE "\\.so[.0-9]*$" ".a" archive "${location}")
      if(EXISTS "${archive}")
        set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_${configuration} "${archive}")
      endif()
    endforeach()
  endif()
endforeach()
find_package(Threads REQUIRED)
# Archives into the program where there are any, as of abseil; shared libraries into libslipway.so.
find_package(ZLIB REQUIRED)
find_library(SLIPWAY_ZLIB_ARCHIVE libz.a)
add_library(slipway_zlib INTERFACE)
target_link_libraries(slipway_zlib INTERFACE $<IF:$<BOOL:${SLIPWAY_ZLIB_ARCHIVE}>,${SLIPWAY_ZLIB_ARCHIVE},ZLIB::ZLIB>)
find_package(PkgConfig REQUIRED)
# Only for the tests, which judge with it the archives that slipway writes.
pkg_check_modules(LIBZIP REQUIRED IMPORTED_TARGET libzip)
add_library(slipway_zip INTERFACE)
target_link_libraries(slipway_zip INTERFACE PkgConfig::LIBZIP)
pkg_check_modules(LIBDEFLATE REQUIRED IMPORTED_TARGET libdeflate)
find_library(SLIPWAY_DEFLATE_ARCHIVE libdeflate.a)
add_library(slipway_deflate INTERFACE)
target_link_libraries(slipway_deflate
  INTERFACE $<IF:$<BOOL:${SLIPWAY_DEFLATE_ARCHIVE}>,${SLIPWAY_DEFLATE_ARCHIVE},PkgConfig::LIBDEFLATE>)
# Images (importers/image): archives into the program as well, shared libraries into libslipway.so.
find_package(PNG REQUIRED)
find_package(JPEG REQUIRED)
find_library(SLIPWAY_PNG_ARCHIVE libpng.a)
find_library(SLIPWAY_JPEG_ARCHIVE libjpeg.a)
add_library(slipway_images INTERFACE)
target_include_directories(slipway_images SYSTEM INTERFACE ${PNG_INCLUDE_DIRS} ${JPEG_INCLUDE_DIRS})
target_link_libraries(slipway_images INTERFACE
  $<IF:$<BOOL:${SLIPWAY_PNG_ARCHIVE}>,${SLIPWAY_PNG_ARCHIVE},PNG::PNG>
  $<IF:$<BOOL:${SLIPWAY_JPEG_ARCHIVE}>,${SLIPWAY_JPEG_ARCHIVE},JPEG::JPEG> slipway_zlib)
# RE2: the archive into the program, the shared library into libslipway.so, as abseil.
find_path(RE2_INCLUDE re2/re2.h REQUIRED)
find_library(SLIPWAY_RE2_ARCHIVE libre2.a REQUIRED)
find_library(SLIPWAY_RE2_LIBRARY libre2.so REQUIRED)
file(STRINGS "${RE2_INCLUDE}/re2/re2.h" re2_needs_absl REGEX "include \"absl/")  # since 2023; Debian 12 has one before
set(SLIPWAY_RE2_ABSL "")
if(re2_needs_absl)
  set(SLIPWAY_RE2_ABSL absl::absl_check absl::absl_log absl::fixed_array
    absl::flat_hash_map absl::flat_hash_set absl::hash
    absl::inlined_vector absl::str_format absl::strings absl::synchronization)
endif()
add_library(slipway_re2 INTERFACE)
target_include_directories(slipway_re2 SYSTEM INTERFACE ${RE2_INCLUDE})
target_link_libraries(slipway_re2 INTERFACE ${SLIPWAY_RE2_ARCHIVE} ${SLIPWAY_RE2_ABSL} Threads::Threads)
# Debian has no archive of simdjson: `scripts/setup.sh simdjson` builds one, which wheels need and everything takes once
# it is there.
find_library(SLIPWAY_SIMDJSON_ARCHIVE libsimdjson.a PATHS ${SLIPWAY_DEPS}/simdjson NO_DEFAULT_PATH)
add_library(slipway_simdjson INTERFACE)
set(SLIPWAY_SIMDJSON_INCLUDE "")
if(SLIPWAY_SIMDJSON_ARCHIVE)
  cmake_path(GET SLIPWAY_SIMDJSON_ARCHIVE PARENT_PATH SLIPWAY_SIMDJSON_INCLUDE)  # the header of the same version
  target_compile_definitions(slipway_simdjson INTERFACE SIMDJSON_THREADS_ENABLED=1)  # as Debian builds it
  target_link_libraries(slipway_simdjson INTERFACE ${SLIPWAY_SIMDJSON_ARCHIVE})
else()
  find_package(simdjson REQUIRED)
  target_link_libraries(slipway_simdjson INTERFACE simdjson::simdjson)
endif()
find_package(CLI11 REQUIRED)
add_library(slipway_cli11 INTERFACE)
target_link_libraries(slipway_cli11 INTERFACE CLI11::CLI11)

set(Protobuf_USE_STATIC_LIBS ON)
find_package(Protobuf REQUIRED)
find_library(SLIPWAY_PROTOBUF_LIBRARY libprotobuf.so REQUIRED)  # for libslipway.so, as abseil's
set(SLIPWAY_ONNX ${SLIPWAY_DEPS}/onnx)
if(EXISTS ${SLIPWAY_DEPS}/onnx-shipped/.stamp AND NOT SLIPWAY_QUICK)  # smaller: scripts/setup.sh archives
  set(SLIPWAY_ONNX ${SLIPWAY_DEPS}/onnx-shipped)
endif()
set(ONNX_LIBRARY ${SLIPWAY_ONNX}/lib/libonnx.a)
set(ONNX_PROTO_LIBRARY ${SLIPWAY_ONNX}/lib/libonnx_proto.a)
if(NOT EXISTS ${ONNX_LIBRARY})
  message(FATAL_ERROR "No ${ONNX_LIBRARY}: run scripts/setup.sh onnx.")
endif()
add_library(slipway_onnx INTERFACE)
target_include_directories(slipway_onnx SYSTEM INTERFACE ${SLIPWAY_ONNX}/include)
target_compile_definitions(slipway_onnx INTERFACE ONNX_ML=1 ONNX_NAMESPACE=onnx __ONNX_DISABLE_STATIC_REGISTRATION)
target_link_libraries(slipway_onnx INTERFACE ${ONNX_LIBRARY} ${ONNX_PROTO_LIBRARY} protobuf::libprotobuf)

# The plan of a native library: header-only where it is read, flatc where the project is built.
find_program(FLATC flatc REQUIRED)
find_path(FLATBUFFERS_INCLUDE flatbuffers/flatbuffers.h REQUIRED)
