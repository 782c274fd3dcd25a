# The fuzz targets of tests/fuzz: libFuzzer's engine, which Debian packages apart from its compiler (scripts/setup.sh
# fuzz puts it into build/deps/fuzz), around code that GCC builds. Built only where it is there. Without
# SLIPWAY_COVERAGE the engine knows the answers that targets get and no blocks (tests/fuzz/feedback.cc).
find_library(FUZZ_ENGINE Fuzzer PATHS ${SLIPWAY_DEPS}/fuzz NO_DEFAULT_PATH NO_CACHE)
if(NOT FUZZ_ENGINE)
  return()
endif()
add_library(fuzz_feedback STATIC tests/fuzz/feedback.cc)
add_custom_target(fuzz)
if(SLIPWAY_COVERAGE)  # of what reads
  set(coverage -fsanitize-coverage=trace-pc,trace-cmp)
  foreach(room io ir importers onnx_model weights)
    target_compile_options(room_${room} PRIVATE ${coverage})
  endforeach()
  set_source_files_properties(kernels/executor/plan_file.cc kernels/executor/bind.cc kernels/executor/execute.cc
    PROPERTIES COMPILE_OPTIONS "${coverage}")
  target_link_libraries(room_io PUBLIC fuzz_feedback)
  target_link_libraries(room_kernels PUBLIC fuzz_feedback)
endif()

file(GLOB fuzz_sources CONFIGURE_DEPENDS tests/fuzz/*.cc)
list(FILTER fuzz_sources EXCLUDE REGEX feedback)
foreach(source ${fuzz_sources})
  get_filename_component(name ${source} NAME_WE)
  add_executable(fuzz_${name} EXCLUDE_FROM_ALL ${source})
  slipway_see_rooms(fuzz_${name} base io ir importers onnx_model passes kernels planner exporters schemas weights tests)
  target_link_libraries(fuzz_${name} PRIVATE fuzz_feedback room_exporters ${FUZZ_ENGINE})
  set_target_properties(fuzz_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  add_dependencies(fuzz fuzz_${name})
endforeach()
