// Compares the types that shape functions infer with those written in exported programs, op by op.
//
//   infer_check [--quiet] FILE.pt2…
//
// A line on stdout for each node that differs: "differ", "unproven" (symbolic sizes that are not provably equal),
// "error" (the shape function refuses) or "missing" (none), then file, op, value, inferred, declared, separated by
// tabs. At the end a table of counts by op. Exit 1 if anything differs, errs or is unreadable; unproven and missing are
// told only.
#include <cstdio>
#include <map>
#include <string>

#include "base/text.h"
#include "importers/pt2/pt2.h"
#include "io/mapped_file.h"
#include "ir/ops/infer.h"

namespace {

using namespace slipway;  // NOLINT: a tool of one file

struct Counts {
  int agree = 0, differ = 0, unproven = 0, error = 0, missing = 0;
};

enum class Verdict { kAgree, kUnproven, kDiffer };

Verdict Worse(Verdict a, Verdict b) { return a > b ? a : b; }

bool HasUnknown(ir::Sym e) {
  if (e.kind() == ir::SymKind::kCall && e.name() == "unknown") return true;
  for (ir::Sym o : e.operands())
    if (HasUnknown(o)) return true;
  return false;
}

Verdict CompareSizes(ir::Sym inferred, ir::Sym declared) {
  if (inferred == declared || ir::ProvablyEqual(inferred, declared)) return Verdict::kAgree;
  if (ir::ProvablyDifferent(inferred, declared)) return Verdict::kDiffer;
  return HasUnknown(inferred) ? Verdict::kAgree : Verdict::kUnproven;
}

Verdict Compare(const ir::Type& inferred, const ir::Type& declared) {
  if (inferred.kind != declared.kind) return Verdict::kDiffer;
  if (inferred.is_sym()) {
    if (inferred.kind == ir::Type::kSymInt) return CompareSizes(inferred.expr, declared.expr);
    return inferred.expr == declared.expr || HasUnknown(inferred.expr) ? Verdict::kAgree : Verdict::kUnproven;
  }
  if (!inferred.is_tensor()) return Verdict::kAgree;
  if (inferred.dtype != declared.dtype || inferred.rank() != declared.rank()) return Verdict::kDiffer;
  Verdict v = Verdict::kAgree;
  for (int d = 0; d < inferred.rank(); ++d) v = Worse(v, CompareSizes(inferred.sizes[d], declared.sizes[d]));
  return v;
}

class Checker {
 public:
  explicit Checker(bool quiet) : quiet_(quiet) {}

  void File(const std::string& path) {
    file_ = path;
    auto mapped = io::MappedFile::Open(path);
    if (!mapped.ok()) return Unreadable(mapped.status());
    auto archive = importers::ReadPt2(*mapped);
    if (!archive.ok()) return Unreadable(archive.status());
    for (const auto& p : archive->programs) GraphNodes(*p->graph);
  }

  int Report() const {
    Counts sum;
    std::printf("%8s %8s %8s %8s %8s  op\n", "agree", "differ", "unproven", "error", "missing");
    for (const auto& [op, n] : counts_) {
      if (!quiet_ || n.differ || n.unproven || n.error || n.missing)
        std::printf("%8d %8d %8d %8d %8d  %s\n", n.agree, n.differ, n.unproven, n.error, n.missing, op.c_str());
      sum.agree += n.agree, sum.differ += n.differ, sum.unproven += n.unproven;
      sum.error += n.error, sum.missing += n.missing;
    }
    std::printf("%8d %8d %8d %8d %8d  total\n", sum.agree, sum.differ, sum.unproven, sum.error, sum.missing);
    return sum.differ || sum.error || unreadable_ ? 1 : 0;
  }

 private:
  void Unreadable(const absl::Status& s) {
    ++unreadable_;
    std::printf("unreadable\t%s\t%s\n", file_.c_str(), std::string(s.message()).c_str());
  }
  void Line(const char* verdict, const ir::Node& n, const std::string& value, const std::string& inferred,
            const std::string& declared) {
    std::printf("%s\t%s\t%s\t%s\t%s\t%s\n", verdict, file_.c_str(), std::string(n.op_name()).c_str(), value.c_str(),
                inferred.c_str(), declared.c_str());
  }
  void GraphNodes(const ir::Graph& g) {
    for (ir::Node* n : g) {
      One(*n);
      // Inside an autocast region the dtypes depend on the region, which shape functions do not see.
      if (n->op_name() == "higher_order.wrap_with_autocast") continue;
      for (const ir::NamedArg& a : n->args())
        if (auto sub = a.arg.get<ir::SubGraph>()) GraphNodes(**sub);
    }
  }
  void One(const ir::Node& n) {
    Counts& count = counts_[std::string(n.op_name())];
    auto inferred = ir::InferTypes(n, ir::FreshSymbols::kNone);
    std::string name = n.output() ? n.output()->name() : "";
    if (!inferred.ok()) {
      bool missing = absl::IsUnimplemented(inferred.status());
      ++(missing ? count.missing : count.error);
      Line(missing ? "missing" : "error", n, name, std::string(inferred.status().message()), "");
      return;
    }
    if (inferred->size() != n.outputs().size()) {
      ++count.differ;
      Line("differ", n, name, text::StrCat(inferred->size(), " results"), text::StrCat(n.outputs().size(), " results"));
      return;
    }
    Verdict verdict = Verdict::kAgree;
    for (size_t i = 0; i < inferred->size(); ++i) {
      const ir::Value* v = n.outputs()[i];
      if (!v) continue;  // declared as None: nothing to compare
      Verdict one = Compare((*inferred)[i], v->type());
      if (one != Verdict::kAgree)
        Line(one == Verdict::kDiffer ? "differ" : "unproven", n, v->name(), (*inferred)[i].ToString(),
             v->type().ToString());
      verdict = Worse(verdict, one);
    }
    ++(verdict == Verdict::kAgree ? count.agree : verdict == Verdict::kDiffer ? count.differ : count.unproven);
  }

  bool quiet_;
  std::string file_;
  int unreadable_ = 0;
  std::map<std::string, Counts> counts_;
};

}  // namespace

int main(int argc, char** argv) {
  bool quiet = argc > 1 && std::string_view(argv[1]) == "--quiet";
  Checker checker(quiet);
  for (int i = quiet ? 2 : 1; i < argc; ++i) checker.File(argv[i]);
  return checker.Report();
}
