// The environments of launchers, as a table.
#include "driver/convert/ranks.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "absl/types/span.h"
#include "base/text.h"
#include "driver/edge/diagnostic.h"
#include "io/digest.h"

namespace slipway::driver {
namespace {

struct Launcher {
  const char *name, *rank, *size, *first;  // `first`: the variable that holds the least rank, or null where it is 0
};
constexpr Launcher kLaunchers[] = {
    {"Slurm array", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", nullptr},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", nullptr},
    {"Kubernetes", "JOB_COMPLETION_INDEX", "JOB_COMPLETIONS", nullptr},
};

absl::StatusOr<int> RankVariable(const char* variable) {
  int value = 0;
  const char* set = std::getenv(variable);
  if (!set || !text::ParseNumber(set, &value))
    return UsageError(text::StrCat("the environment's ", variable, " is no number"));
  return value;
}

void AddFile(const std::string& path, std::set<std::string>& facts) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return;
  if (S_ISREG(info.st_mode)) {
    facts.insert(text::StrCat(path, " ", info.st_size, " ", info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec));
    return;
  }
  DIR* folder = opendir(path.c_str());
  if (!folder) return;
  while (const dirent* entry = readdir(folder)) {
    const std::string name = entry->d_name, file = text::StrCat(path, "/", name);
    if (name.starts_with('.') || stat(file.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    facts.insert(text::StrCat(name, " ", info.st_size, " ", info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec));
  }
  closedir(folder);
}

}  // namespace

absl::StatusOr<std::optional<Ranks>> RanksOf(const ConvertOptions& o) {
  Ranks r;
  const bool rank_given = o.given.contains("rank"), size_given = o.given.contains("world-size");
  if (rank_given || size_given) {
    if (size_given && o.world_size == 1) return std::optional<Ranks>();
    if (!rank_given || !size_given) return UsageError("--rank and --world-size go together");
    r = {static_cast<int>(o.rank), o.world_size, "as the flags say"};
  } else {
    for (const Launcher& l : kLaunchers) {
      if (!std::getenv(l.rank) || !std::getenv(l.size)) continue;
      const auto rank = RankVariable(l.rank), size = RankVariable(l.size);
      if (!rank.ok()) return rank.status();
      if (!size.ok()) return size.status();
      int first = 0;
      if (l.first && std::getenv(l.first)) {
        const auto least = RankVariable(l.first);
        if (!least.ok()) return least.status();
        first = *least;
      }
      r = {*rank - first, *size, l.name};
      break;
    }
    if (r.source.empty() || r.world_size == 1) return std::optional<Ranks>();
  }
  if (r.world_size < 1 || r.rank < 0 || r.rank >= r.world_size)
    return UsageError(text::StrCat("rank ", r.rank, " of ", r.world_size, " (", r.source, ") makes no sense"),
                      "ranks count from 0; --world-size 1 ignores the environment");
  return std::optional<Ranks>(std::move(r));
}

std::string RunOf(const ConvertOptions& o, const QuantizeReport& report) {
  std::set<std::string> facts = {report.config_json, o.numerics};
  for (const std::string& input : o.inputs) AddFile(input, facts);
  for (const QuantizedRow& row : report.rows) facts.insert(text::StrCat(row.name, "=", row.config));
  std::string all;
  for (const std::string& f : facts) all += f + "\n";
  return io::ToHex(io::Sha256Of(absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(all.data()), all.size())));
}

}  // namespace slipway::driver
