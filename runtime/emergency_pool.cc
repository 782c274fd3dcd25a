// The C++ runtime that is linked into every library keeps 73 kB for exceptions thrown when memory is out, and gives
// them back only
// when it is asked to: a host that closes the library and opens another would lose that much each time.
namespace __gnu_cxx {
void __freeres();  // of libstdc++, in no header
}

namespace {

// The library is being closed, or the process ends: nothing throws any more.
__attribute__((destructor)) void FreeEmergencyPool() { __gnu_cxx::__freeres(); }

}  // namespace
