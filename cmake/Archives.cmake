# What libslipway.so holds of other libraries. Debian's archives of abseil, Protobuf and RE2 cannot go into a shared
# library, so it needs Debian's shared ones, until `scripts/setup.sh archives` has built archives that can
# (cmake/archives): from then on all is inside, and it runs where the program does. SLIPWAY_ARCHIVES is the list of
# them, empty where there are none.
set(SLIPWAY_ARCHIVES "")
set(archives ${SLIPWAY_DEPS}/archives)
if(EXISTS ${archives}/packages AND SLIPWAY_SIMDJSON_ARCHIVE AND SLIPWAY_DEFLATE_ARCHIVE AND SLIPWAY_ZLIB_ARCHIVE
  AND SLIPWAY_PNG_ARCHIVE AND SLIPWAY_JPEG_ARCHIVE AND NOT SLIPWAY_SANITIZE)
  # They fit the headers of the packages that they were built for.
  file(STRINGS ${archives}/packages built_for)
  if(CMAKE_CROSSCOMPILING)  # scripts/cross_aarch64.sh: packages that are unpacked, not installed
    file(STRINGS ${CMAKE_SYSROOT}/packages installed)
    set(setup scripts/cross_aarch64.sh)
  else()
    execute_process(COMMAND dpkg-query -W "-f=\${source:Package}=\${source:Version}\n"
      libabsl-dev libprotobuf-dev libre2-dev
      OUTPUT_VARIABLE installed OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    string(REPLACE "\n" ";" installed "${installed}")
    set(setup scripts/setup.sh)
  endif()
  if(NOT "${built_for}" STREQUAL "${installed}")
    message(FATAL_ERROR "${archives} was built for ${built_for}, and ${installed} are there: run ${setup} archives.")
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${archives}/packages)
  # Debian's archives of libpng and libjpeg are made for programs, too, but for one name: glibc's stderr, which a shared
  # library does not have in a place of its own. importers/image/png.cc has one.
  set(SLIPWAY_IMAGES_FOR_LIBRARY "")
  foreach(library png jpeg)
    string(TOUPPER ${library} upper)
    execute_process(COMMAND ${CMAKE_OBJCOPY} --redefine-sym stderr=slipway_images_stderr
      ${SLIPWAY_${upper}_ARCHIVE} ${CMAKE_BINARY_DIR}/lib${library}.a COMMAND_ERROR_IS_FATAL ANY)
    list(APPEND SLIPWAY_IMAGES_FOR_LIBRARY ${CMAKE_BINARY_DIR}/lib${library}.a)
  endforeach()
  foreach(library protobuf re2 absl)
    list(APPEND SLIPWAY_ARCHIVES ${archives}/lib/lib${library}.a)
  endforeach()
endif()
