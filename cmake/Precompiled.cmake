# A precompiled header differs from build to build; this text stands for its content in the compiler cache's keys.
function(slipway_pch_sum target)
  get_target_property(headers ${target} PRECOMPILE_HEADERS)
  file(WRITE ${CMAKE_BINARY_DIR}/CMakeFiles/${target}.dir/cmake_pch.hxx.gch.sum
    "${CMAKE_CXX_COMPILER_VERSION} ${absl_VERSION} ${CMAKE_BUILD_TYPE} ${SLIPWAY_SANITIZE} ${headers}\n")
endfunction()

# The standard library's and abseil's headers, parsed once for all rooms: about 40 % of the time a file takes to
# compile. Headers of rooms are not among them, so that a change of one recompiles what includes it only.
function(slipway_pch target)  # with the options behind it
  add_library(${target} STATIC cmake/precompiled.cc)
  target_compile_options(${target} PRIVATE ${ARGN})
  target_precompile_headers(${target} PRIVATE
    <algorithm> <cmath> <cstdint> <cstring> <deque> <functional> <limits> <map> <memory> <optional> <set> <string>
    <string_view> <utility> <variant> <vector>
    <absl/container/flat_hash_map.h> <absl/container/flat_hash_set.h> <absl/container/inlined_vector.h>
    <absl/status/status.h> <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/types/span.h>)
  target_link_libraries(${target} PRIVATE absl::statusor absl::flat_hash_map absl::flat_hash_set
    absl::inlined_vector absl::strings)
  slipway_pch_sum(${target})
endfunction()
slipway_pch(slipway_pch)

# How code is optimized that works on graphs and texts: with SLIPWAY_QUICK in a third of the time to compile it; what is
# shipped is small.
set(slipway_graph_flags "")
if(SLIPWAY_QUICK AND NOT SLIPWAY_SANITIZE)
  set(slipway_graph_flags -Og)
elseif(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(slipway_graph_flags -Os)
endif()
# GCC 12 takes a header at -Og that was precompiled at -O2.
set(slipway_graph_pch slipway_pch)
if(slipway_graph_flags AND NOT (SLIPWAY_QUICK AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU"
    AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13))
  set(slipway_graph_pch slipway_graph_pch)
  slipway_pch(slipway_graph_pch ${slipway_graph_flags})
endif()
