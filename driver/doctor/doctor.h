// `slipway doctor`: what of this machine slipway works with, and what is in its way.
#ifndef SLIPWAY_DRIVER_DOCTOR_DOCTOR_H_
#define SLIPWAY_DRIVER_DOCTOR_DOCTOR_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace slipway::driver {

struct DoctorOptions {
  std::string self;    // the binary
  std::string python;  // the one to look at; "": those that `verify` tries
};

struct DoctorReport {
  std::string version, path;  // of slipway
  struct Processor {
    std::string name;
    int threads = 0;                     // that run and verify take
    std::vector<std::string> supported;  // instruction sets that kernels are written for and the processor has
    std::vector<std::string> built;      // those that this build has kernels for; empty: all of the architecture
    std::string used, cap;               // cap: what SLIPWAY_ISA says
  } processor;
  uint64_t memory = 0, memory_available = 0;  // bytes; 0: not known
  struct Python {
    std::string command, path, version;
    std::map<std::string, std::string> packages;  // those that are installed, with their versions
    bool runs_onnx = false;                       // numpy and onnxruntime can be imported
    std::string why_not;
  };
  std::vector<Python> pythons;
  struct Cache {  // of slipway.compile()
    std::string path;
    bool exists = false;
    int64_t files = 0;
    uint64_t bytes = 0;
  } cache;
  struct Temporary {
    std::string path;
    bool writable = false;
    uint64_t free = 0;
  } temporary;
  struct Problem {
    std::string cause, help;
  };
  std::vector<Problem> problems;
};

DoctorReport Doctor(const DoctorOptions& options);

std::string ToTable(const DoctorReport& report);
// One object of schemas/doctor.schema.json.
std::string ToJson(const DoctorReport& report);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_DOCTOR_DOCTOR_H_
