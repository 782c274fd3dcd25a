// Functionalization of one graph. What is read of it first is in functionalize.cc, its rewriting in
// functionalize_rewrite.cc.
#ifndef SLIPWAY_PASSES_FUNCTIONALIZER_H_
#define SLIPWAY_PASSES_FUNCTIONALIZER_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops/args.h"
#include "ir/ops/functional.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_table.h"
#include "passes/alias.h"
#include "passes/pass.h"

namespace slipway::passes {

// Unimplemented, with the node and its place.
absl::Status RefuseMutation(const ir::Node& n, std::string_view why);
// Whether training updates running statistics, which the declaration does not say (or says beside other results).
bool UpdatesStatistics(const ir::Node& n);
bool WritesOperands(const ir::Node& n);
// The values a node writes.
ir::Values WrittenBy(const ir::Node& n);

class Functionalizer {
 public:
  explicit Functionalizer(ir::Graph& g) : g_(g), root_(g.program()->graph.get() == &g) {}

  absl::Status Run();

 private:
  // How a value is made from what it views.
  struct Alias {
    ir::Value *root = nullptr, *parent = nullptr;
    ir::Node* via = nullptr;  // null: the result of an in-place node, the same tensor as its parent
    int out = 0, arg = -1, element = -1;
  };
  struct State {
    ir::Value* value = nullptr;
    int64_t version = -1;
  };

  ir::Graph& g_;
  const bool root_;
  std::vector<ir::Node*> nodes_;
  absl::flat_hash_map<const ir::Value*, Alias> alias_;
  absl::flat_hash_map<const ir::Value*, State> state_;
  absl::flat_hash_map<const ir::Value*, int64_t> version_;  // by base
  absl::flat_hash_map<const ir::Value*, int> first_,
      last_;  // by base: where it is made, where anything of it is last used
  struct Write {
    ir::Value* root;
    int position;
  };
  std::vector<Write> writes_;
  absl::flat_hash_set<const ir::Value*> written_;  // bases
  absl::flat_hash_map<const ir::Value*, std::vector<std::pair<ir::Value*, const ir::Node*>>>
      undecided_;                                     // by base, both ways
  absl::flat_hash_set<const ir::Value*> maybe_view_;  // bases that may be views of others
  ir::Node* at_ = nullptr;                            // what is made goes before this
  int64_t made_ = 0;

  absl::Status Separate(ir::Node* n);
  static bool IsStrided(const ir::Node& n) { return n.op().ns == "aten" && n.op().base.starts_with("as_strided"); }
  ir::Value* RootOf(ir::Value* v) const;
  bool UsedAfter(const ir::Value* v, const ir::Node* n) const;
  absl::Status Normalize();
  absl::Status Anchor(ir::Node* n);
  void Note(ir::Node* n);
  absl::Status Analyze();
  absl::Status CheckUndecided();

  // ---- Rewriting

  bool Tracked(const ir::Value* v) const;
  int64_t& VersionOf(ir::Value* root) { return version_[root]; }

  absl::Status Count(int64_t n);
  absl::StatusOr<ir::Value*> Current(ir::Value* v);
  absl::Status WriteTo(ir::Value* v, ir::Value* value, const std::shared_ptr<const ir::Source>& source);
  absl::StatusOr<ir::Value*> Compute(ir::Node* n, ir::Value* before);
  absl::Status UpdateStatistics(ir::Node* n);
  ir::Value* statistics_[2] = {nullptr, nullptr};  // of the node at hand, as exported

  // Tensors become what they are by now.
  absl::Status Refresh(ir::Arg& a) {
    absl::Status status;
    a.ReplaceValues([&](ir::Value* v) -> ir::Value* {
      if (!v->type().is_tensor()) return v;
      auto now = Current(v);
      if (now.ok()) return *now;
      status = now.status();
      return v;
    });
    return status;
  }

  absl::Status RewriteNode(ir::Node* n);
  absl::Status Rewrite();
  absl::Status CheckTied();
  static bool Overlap(const ir::TensorRef& a, const ir::TensorRef& b);
  void AddMutations();
};

}  // namespace slipway::passes

#endif  // SLIPWAY_PASSES_FUNCTIONALIZER_H_
