// Which names of a pickle may be passed over as records, and which are refused because no checkpoint has a use for
// them.
#ifndef SLIPWAY_IMPORTERS_CHECKPOINT_PICKLE_NAMES_H_
#define SLIPWAY_IMPORTERS_CHECKPOINT_PICKLE_NAMES_H_

#include <string>
#include <string_view>

namespace slipway::importers {

// Whether a module and a name in it are Python's (identifiers with dots between them; modules in ASCII) and none of
// those that run commands or code where a pickle is loaded by Python. No safety rests on the latter, since no name is
// ever looked up: a file that has one attacks whoever loads it elsewhere, and its reader is told. "__builtin__" is
// given as "builtins".
bool IsHarmlessName(std::string_view module, std::string_view name);

// "module.name" of "module name".
std::string DottedName(std::string_view name);

}  // namespace slipway::importers

#endif  // SLIPWAY_IMPORTERS_CHECKPOINT_PICKLE_NAMES_H_
