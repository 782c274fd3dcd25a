# The licences of other projects' code that is in the program and the library (packaging/licences.py): SLIPWAY_LICENCES
# is the file, made with the program, and empty on systems without Debian's packages. tests/cli/licences.sh compares
# with what is linked and included.
set(SLIPWAY_LICENCES "")
find_program(DPKG_QUERY dpkg-query)
find_program(DPKG dpkg)
if(DPKG_QUERY AND DPKG AND EXISTS /usr/share/common-licenses)
  find_program(PYTHON3 python3 REQUIRED)
  set(licences ${CMAKE_BINARY_DIR}/licences/copyright)
  set(packages libabsl-dev libprotobuf-dev libre2-dev libdeflate-dev zlib1g-dev libcli11-dev libflatbuffers-dev)
  set(texts "")
  if(SLIPWAY_SIMDJSON_ARCHIVE)  # of a package of Python's, which has the sources and not their licence; Debian's has
    file(STRINGS ${SLIPWAY_SIMDJSON_INCLUDE}/simdjson.h version REGEX "^#define SIMDJSON_VERSION " LIMIT_COUNT 1)
    string(REGEX REPLACE ".*\"(.*)\".*" "\\1" version "${version}")
    list(APPEND texts --text simdjson "${version}, the source distribution of pysimdjson"
      /usr/share/doc/libsimdjson-dev/copyright)
  else()
    list(APPEND packages libsimdjson-dev)
  endif()
  set(version "of an unknown version")
  if(EXISTS ${SLIPWAY_ONNX}/.stamp)  # scripts/setup.sh: the version is its first word
    file(STRINGS ${SLIPWAY_ONNX}/.stamp version LIMIT_COUNT 1)
    string(REGEX REPLACE " .*" "" version "${version}")
  endif()
  # What was installed without its LICENSE says in its sources that it is this one.
  set(onnx_licence /usr/share/common-licenses/Apache-2.0)
  if(EXISTS ${SLIPWAY_ONNX}/LICENSE)
    set(onnx_licence ${SLIPWAY_ONNX}/LICENSE)
  endif()
  list(APPEND texts --text onnx "${version}, the sources in the onnx package" ${onnx_licence})
  # Which package has libjpeg depends on the distribution.
  file(REAL_PATH "${JPEG_LIBRARIES}" jpeg)
  if(SLIPWAY_JPEG_ARCHIVE)
    set(jpeg ${SLIPWAY_JPEG_ARCHIVE})
  endif()
  if(CMAKE_CROSSCOMPILING)  # the same package of this machine has the licence
    cmake_path(GET jpeg FILENAME jpeg)
    set(jpeg "*/${jpeg}")
  endif()
  execute_process(COMMAND ${DPKG_QUERY} -S ${jpeg} OUTPUT_VARIABLE owner ERROR_QUIET)
  string(REGEX REPLACE ":.*" "" owner "${owner}")
  list(APPEND packages libpng-dev ${owner})
  # The C++ runtime, which goes into programs and libraries as archives.
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libstdc++.a
    OUTPUT_VARIABLE runtime OUTPUT_STRIP_TRAILING_WHITESPACE)
  file(REAL_PATH "${runtime}" runtime)
  execute_process(COMMAND ${DPKG_QUERY} -S ${runtime} OUTPUT_VARIABLE owner ERROR_QUIET)
  string(REGEX REPLACE ":.*" "" owner "${owner}")
  if(owner)
    list(APPEND packages ${owner})
  endif()
  set(arguments "")
  set(inputs ${onnx_licence} ${CMAKE_SOURCE_DIR}/packaging/licences.py)
  foreach(package IN LISTS packages)
    list(APPEND arguments --package ${package})
    list(APPEND inputs /usr/share/doc/${package}/copyright)
  endforeach()
  add_custom_command(OUTPUT ${licences} COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/licences
    COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/packaging/licences.py ${licences} ${arguments} ${texts}
      DEPENDS ${inputs} VERBATIM)
  add_custom_target(licences DEPENDS ${licences})
  add_dependencies(slipway licences)
  add_dependencies(slipway_shared licences)
  set(SLIPWAY_LICENCES ${licences})
else()
  message(STATUS "No file of other projects' licences: they are taken from Debian's packages")
endif()
