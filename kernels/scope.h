// What kernels take their memory from.
#ifndef SLIPWAY_KERNELS_SCOPE_H_
#define SLIPWAY_KERNELS_SCOPE_H_

#include "kernels/parallel.h"
#include "kernels/registry.h"

namespace slipway::kernels {

// The workspace of a call, or one of its own where the caller has none.
class Scope {
 public:
  explicit Scope(const Call& c)
      : workspace_(c.workspace ? *c.workspace : own_), parts_(c.workers ? MostParts(*c.workers) : 1) {}
  Workspace& operator*() const { return workspace_; }
  Workspace* operator->() const { return &workspace_; }
  // How many parts of a loop may run at the same time.
  int64_t parts() const { return parts_; }

 private:
  Workspace own_;
  Workspace& workspace_;
  int64_t parts_;
};

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_SCOPE_H_
