# The runtime of libraries for 64-bit Arm that are made on x86-64 (`convert --target aarch64-linux`): kernels/ and
# runtime/ compiled by Debian's cross compiler, as commands of this build, and runtime/runner/, which runs such a
# library under an emulator. Without that compiler slipway is built without them, and --target says so.
#
# The target `aarch64_tests` builds what tests/arm/check.sh runs, of the same objects.
set(SLIPWAY_AARCH64_RUNTIME "")  # the template, stripped; empty where there is none
set(SLIPWAY_AARCH64_RUNNER "")
set(SLIPWAY_AARCH64_DEFINITIONS "")
option(SLIPWAY_AARCH64 "Carry the runtime of libraries for 64-bit Arm" ON)
find_program(SLIPWAY_AARCH64_CXX aarch64-linux-gnu-g++)
if(NOT SLIPWAY_AARCH64 OR NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  return()
endif()
if(NOT SLIPWAY_AARCH64_CXX)
  message(STATUS "No aarch64-linux-gnu-g++: without the runtime of libraries for 64-bit Arm")
  return()
endif()

set(cross ${CMAKE_BINARY_DIR}/aarch64)
function(slipway_cross_tool name variable)
  execute_process(COMMAND ${SLIPWAY_AARCH64_CXX} -print-prog-name=${name}
    OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(${variable} ${path} PARENT_SCOPE)
endfunction()
slipway_cross_tool(strip cross_strip)

set(cross_flags -std=c++20 -DNDEBUG -D_FORTIFY_SOURCE=2 -fPIC -fvisibility=hidden -fvisibility-inlines-hidden -Wall
  -Wextra -Werror -Wno-missing-field-initializers -Wno-restrict -Wno-maybe-uninitialized -Wno-psabi -fno-plt
  -fno-gnu-unique -fstack-protector-strong -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
# GCC 12 knows the 16-bit float of this architecture in C++ by another name only.
file(WRITE ${cross}/float16.cc "_Float16 x;\n")
execute_process(COMMAND ${SLIPWAY_AARCH64_CXX} -std=c++20 -fsyntax-only ${cross}/float16.cc
  RESULT_VARIABLE no_float16 OUTPUT_QUIET ERROR_QUIET)
if(no_float16)
  list(APPEND cross_flags -D_Float16=__fp16)
endif()
# A header without a library behind it: the host's serves, but not the folder that it lies in.
file(MAKE_DIRECTORY ${cross}/include)
file(CREATE_LINK ${FLATBUFFERS_INCLUDE}/flatbuffers ${cross}/include/flatbuffers SYMBOLIC)
list(APPEND cross_flags -I${CMAKE_SOURCE_DIR}/include -isystem ${CMAKE_BINARY_DIR}/generated/fbs
  -isystem ${cross}/include)

# The names in `variable` of the objects of the sources behind FLAGS and SOURCES; what is compiled several times has a
# FOLDER of each time's own.
function(slipway_cross_objects variable)
  cmake_parse_arguments(ARG "" "FOLDER" "FLAGS;SOURCES" ${ARGN})
  set(objects "")
  foreach(source IN LISTS ARG_SOURCES)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE name)
    string(REPLACE "../" "" name "${name}")
    cmake_path(APPEND ARG_FOLDER "${name}" OUTPUT_VARIABLE name)
    cmake_path(GET name PARENT_PATH folder)
    file(MAKE_DIRECTORY ${cross}/${folder})
    set(object ${cross}/${name}.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${SLIPWAY_AARCH64_CXX} ${cross_flags} ${ARG_FLAGS}
        -MD -MT ${object} -MF ${object}.d -c ${source} -o ${object}
      DEPENDS ${source} ${CMAKE_BINARY_DIR}/generated/fbs/plan_generated.h
      DEPFILE ${object}.d COMMENT "Building ${name} for aarch64" VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  set(${variable} ${objects} PARENT_SCOPE)
endfunction()

# Flags as room_kernels has them, but for -O3, which makes the runtime larger by a third (0.3 MB of a wheel); the
# micro-kernels are written with vectors (the root's CMakeLists.txt says more).
set(kernel_flags -I${CMAKE_BINARY_DIR}/views/room_kernels -fno-trapping-math -fno-math-errno)
file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/*.cc)
list(FILTER kernels EXCLUDE REGEX "${slipway_isa_sources}")
list(FILTER kernels EXCLUDE REGEX "/kernels/isa/isa\\.cc$")
slipway_cross_objects(kernel_objects FLAGS ${kernel_flags} -O2 -ffp-contract=off SOURCES ${kernels})
slipway_sets_of(aarch64 arm_sets)
slipway_definitions_of_sets(definitions ${arm_sets})
list(TRANSFORM definitions PREPEND -D)
slipway_cross_objects(isa_objects FLAGS ${kernel_flags} -O2 -ffp-contract=off ${definitions}
  SOURCES ${CMAKE_SOURCE_DIR}/kernels/isa/isa.cc)
list(APPEND kernel_objects ${isa_objects})
foreach(name IN LISTS arm_sets)
  set(sources ${slipway_${name}_FAMILIES})
  list(TRANSFORM sources REPLACE "(.+)" "${CMAKE_SOURCE_DIR}/kernels/isa/\\1.cc")
  set(definitions ${slipway_${name}_DEFINITIONS})
  list(TRANSFORM definitions PREPEND -D)
  slipway_cross_objects(isa_objects FOLDER ${name}
    FLAGS ${kernel_flags} -O2 -ftree-vectorize -fvect-cost-model=dynamic ${SLIPWAY_ARM_SCHEDULE}
      ${slipway_${name}_FLAGS} ${definitions}
    SOURCES ${sources})
  list(APPEND kernel_objects ${isa_objects})
endforeach()
file(GLOB runtime CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/runtime/*.cc ${CMAKE_SOURCE_DIR}/runtime/*.S)
slipway_cross_objects(runtime_objects FLAGS -I${CMAKE_BINARY_DIR}/views/slipway_runtime -O2 SOURCES ${runtime})

# Libraries run where x86-64's do (Glibc.cmake), all of which have 64-bit Arm, too.
set(cross_glibc "")
if(SLIPWAY_GLIBC_STUBS)
  execute_process(
    COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/cmake/glibc/make_stubs.py
      ${cross}/glibc ${SLIPWAY_OLDEST_GLIBC} ${SLIPWAY_AARCH64_CXX}
    RESULT_VARIABLE failed ERROR_VARIABLE reason)
  if(failed)
    string(STRIP "${reason}" reason)
    message(STATUS "aarch64: linking with the cross compiler's glibc: ${reason}")
  else()
    set(cross_glibc -B${cross}/glibc -L${cross}/glibc)
  endif()
endif()

add_custom_command(OUTPUT ${cross}/libslipway_runtime.so
  COMMAND ${SLIPWAY_AARCH64_CXX} -shared -o ${cross}/libslipway_runtime.so ${cross_glibc} ${slipway_template_link}
    ${runtime_objects} ${kernel_objects} -ldl
  DEPENDS ${runtime_objects} ${kernel_objects} ${CMAKE_SOURCE_DIR}/runtime/template.ld
    ${CMAKE_SOURCE_DIR}/runtime/exports.map
  COMMENT "Linking the runtime for aarch64" VERBATIM COMMAND_EXPAND_LISTS)
set(SLIPWAY_AARCH64_RUNTIME ${cross}/template.so)
add_custom_command(OUTPUT ${SLIPWAY_AARCH64_RUNTIME}
  COMMAND ${cross_strip} -s -R .comment -o ${SLIPWAY_AARCH64_RUNTIME} ${cross}/libslipway_runtime.so
  DEPENDS ${cross}/libslipway_runtime.so VERBATIM)

# The runner needs the C library alone, that of the emulator's folder of libraries.
slipway_cross_objects(runner_objects FLAGS -I${CMAKE_BINARY_DIR}/views/slipway_runtime -Os -fno-exceptions -fno-rtti
    -fno-asynchronous-unwind-tables SOURCES ${CMAKE_SOURCE_DIR}/runtime/runner/run_library.cc)
set(SLIPWAY_AARCH64_RUNNER ${cross}/run_library)
add_custom_command(OUTPUT ${SLIPWAY_AARCH64_RUNNER}
  COMMAND ${SLIPWAY_AARCH64_CXX} -nodefaultlibs -s -Wl,-z,now -Wl,-z,relro -Wl,-z,noexecstack -Wl,--build-id=none
    -Wl,-z,max-page-size=65536 -o ${SLIPWAY_AARCH64_RUNNER} ${runner_objects} -lc -ldl -lgcc
  DEPENDS ${runner_objects} VERBATIM)

set(SLIPWAY_AARCH64_DEFINITIONS SLIPWAY_TEMPLATE_AARCH64="${SLIPWAY_AARCH64_RUNTIME}"
  SLIPWAY_RUNNER_AARCH64="${SLIPWAY_AARCH64_RUNNER}")

set(googletest /usr/src/googletest/googletest)
if(SLIPWAY_TESTS AND EXISTS ${googletest}/src/gtest-all.cc)
  set(tests "")
  foreach(name isa gemm int8_gemm product kernels kernel_arguments attention conv_nchw conv_half integer_conv parallel
    plan dequant_linear)
    file(GLOB found ${CMAKE_SOURCE_DIR}/tests/unit/*/${name}_test.cc)
    list(APPEND tests ${found})
  endforeach()
  set(test_flags -I${CMAKE_SOURCE_DIR} -O2)
  slipway_cross_objects(gtest_objects FLAGS -I${googletest} -isystem ${googletest}/include -O2
    SOURCES ${googletest}/src/gtest-all.cc ${googletest}/src/gtest_main.cc)
  slipway_cross_objects(test_objects FLAGS ${test_flags} -I${CMAKE_SOURCE_DIR}/tests/unit -isystem ${googletest}/include
    SOURCES ${tests})
  slipway_cross_objects(run_plan_objects FLAGS ${test_flags} SOURCES ${CMAKE_SOURCE_DIR}/tests/tools/run_plan.cc)
  function(slipway_cross_program name)  # and its objects
    add_custom_command(OUTPUT ${cross}/${name}
      COMMAND ${SLIPWAY_AARCH64_CXX} -o ${cross}/${name} ${ARGN} ${kernel_objects} -ldl
      DEPENDS ${ARGN} ${kernel_objects} COMMENT "Linking ${name} for aarch64" VERBATIM)
  endfunction()
  slipway_cross_program(kernel_tests ${test_objects} ${gtest_objects})
  slipway_cross_program(run_plan ${run_plan_objects})
  add_custom_target(aarch64_tests DEPENDS ${cross}/kernel_tests ${cross}/run_plan ${cross}/libslipway_runtime.so)
endif()
