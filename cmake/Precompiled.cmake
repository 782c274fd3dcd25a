# The standard library's and abseil's headers, parsed once for all rooms: about 40 % of the time a file takes to
# compile. Headers of rooms are not among them, so that a change of one recompiles what includes it only.
add_library(slipway_pch STATIC cmake/precompiled.cc)
target_precompile_headers(slipway_pch PRIVATE
  <algorithm> <cmath> <cstdint> <cstring> <deque> <functional> <limits> <map> <memory> <optional> <set> <string>
  <string_view> <utility> <variant> <vector>
  <absl/container/flat_hash_map.h> <absl/container/flat_hash_set.h> <absl/container/inlined_vector.h>
  <absl/status/status.h> <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/types/span.h>)
target_link_libraries(slipway_pch PRIVATE absl::statusor absl::flat_hash_map absl::flat_hash_set
  absl::inlined_vector absl::strings)
# A precompiled header differs from build to build; this text stands for its content in the compiler cache's keys.
get_target_property(headers slipway_pch PRECOMPILE_HEADERS)
file(WRITE ${CMAKE_BINARY_DIR}/CMakeFiles/slipway_pch.dir/cmake_pch.hxx.gch.sum
  "${CMAKE_CXX_COMPILER_VERSION} ${absl_VERSION} ${CMAKE_BUILD_TYPE} ${SLIPWAY_SANITIZE} ${headers}\n")

function(slipway_precompiled target)
  target_precompile_headers(${target} REUSE_FROM slipway_pch)
endfunction()
