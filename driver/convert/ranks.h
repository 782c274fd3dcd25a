// Several processes that quantize one checkpoint together: which of them this is.
#ifndef SLIPWAY_DRIVER_CONVERT_RANKS_H_
#define SLIPWAY_DRIVER_CONVERT_RANKS_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "driver/convert/options.h"
#include "driver/quantize/report.h"

namespace slipway::driver {

struct Ranks {
  int rank = 0, world_size = 1;
  std::string source;  // where they were read, for people
};

// --rank and --world-size, or what the launcher left in the environment: Slurm (an array's SLURM_ARRAY_TASK_ID and
// _COUNT, a step's SLURM_PROCID and SLURM_NTASKS), Open MPI (OMPI_COMM_WORLD_RANK and _SIZE), Kubernetes' indexed jobs
// (JOB_COMPLETION_INDEX, with JOB_COMPLETIONS set by the job). nullopt for one process. Usage errors where they make no
// sense.
absl::StatusOr<std::optional<Ranks>> RanksOf(const ConvertOptions& o);

// What stands for the run in the headers of its files: a digest of the configuration and of the inputs' names, sizes
// and times.
std::string RunOf(const ConvertOptions& o, const QuantizeReport& report);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_CONVERT_RANKS_H_
