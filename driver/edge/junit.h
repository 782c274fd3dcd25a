// Reports as JUnit XML, which GitLab, Jenkins, Azure and the test summaries of GitHub's actions show.
#ifndef SLIPWAY_DRIVER_EDGE_JUNIT_H_
#define SLIPWAY_DRIVER_EDGE_JUNIT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "driver/edge/diagnostic.h"

namespace slipway::driver {

struct TestCase {
  enum Result : uint8_t { kPassed, kSkipped, kFailed, kError };
  std::string group, name;  // JUnit's classname and name
  Result result = kPassed;
  std::string id;       // of the diagnostic, where it failed
  std::string message;  // why it was skipped or failed, in a line
  std::string text;     // more of it; of a case that passed, what was measured
};

// One suite. An outcome that is no answer (an error such as a corrupt file) is a case of its own, named as the suite.
std::string ToJunit(std::string_view suite, std::vector<TestCase> cases, const Outcome& outcome);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_EDGE_JUNIT_H_
