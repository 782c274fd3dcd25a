// Plan files whose offsets lead to the same place again and again: what is read is bounded by the file's size, and so
// is the time.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/executor/plan_file.h"
#include "plan_generated.h"

namespace slipway::kernels {
namespace {

namespace file = plan_file;

// The reason why the file is refused, or "".
std::string Read(flatbuffers::FlatBufferBuilder& b, NativeModel* model) {
  std::string why;
  return ReadPlanFile({b.GetBufferPointer(), b.GetSize()}, {}, model, &why) ? "" : why;
}

template <typename T>
using Offsets = std::vector<flatbuffers::Offset<T>>;

TEST(PlanFile, SharedTextsAreNoBomb) {
  auto with_origins = [](size_t n, size_t length) {
    flatbuffers::FlatBufferBuilder b;
    const auto text = b.CreateString(std::string(length, 'x'));
    const auto origin = file::CreateOrigin(b, text, text);
    const auto origins = b.CreateVector(Offsets<file::Origin>(n, origin));
    file::PlanBuilder plan(b);
    plan.add_version(kPlanFileVersion);
    plan.add_origins(origins);
    file::FinishPlanBuffer(b, plan.Finish());
    NativeModel model;
    std::string why = Read(b, &model);
    size_t bytes = 0;
    for (const Origin& o : model.origins) bytes += o.op.size() + o.place.size();
    EXPECT_LE(bytes, size_t{b.GetSize()} * 32);
    if (why.empty()) {
      EXPECT_EQ(bytes, n * length * 2);
    }
    return why;
  };
  EXPECT_EQ(with_origins(10, 20), "");
  EXPECT_EQ(with_origins(1000, 20), "");
  EXPECT_NE(with_origins(100'000, 100'000), "");
}

TEST(PlanFile, DimsAreAsManyAsTensorsHave) {
  auto with_dims = [](size_t inputs, size_t dims) {
    flatbuffers::FlatBufferBuilder b;
    const auto text = b.CreateString("B");
    const auto list = b.CreateVector(Offsets<flatbuffers::String>(dims, text));
    file::InputBuilder input(b);
    input.add_dims(list);
    const auto one = input.Finish();
    const auto all = b.CreateVector(Offsets<file::Input>(inputs, one));
    file::PlanBuilder plan(b);
    plan.add_version(kPlanFileVersion);
    plan.add_inputs(all);
    file::FinishPlanBuffer(b, plan.Finish());
    NativeModel model;
    return Read(b, &model);
  };
  EXPECT_EQ(with_dims(1, kMaxRank), "");
  EXPECT_NE(with_dims(1, kMaxRank + 1), "");
  EXPECT_NE(with_dims(500'000, 500'000), "");  // 250 milliards of texts in 4 MB
}

TEST(PlanFile, ReachThatOverflows) {
  flatbuffers::FlatBufferBuilder b;
  const auto sizes = b.CreateVector(std::vector<int64_t>{2, 2}),
             strides = b.CreateVector(std::vector<int64_t>{INT64_MAX, 0});
  const auto constant = file::CreateConstant(b, 0, 0, 0, static_cast<uint8_t>(DType::kU8), sizes, strides, 0);
  const auto constants = b.CreateVector(Offsets<file::Constant>(1, constant));
  file::PlanBuilder plan(b);
  plan.add_version(kPlanFileVersion);
  plan.add_constants(constants);
  file::FinishPlanBuffer(b, plan.Finish());
  NativeModel model;
  EXPECT_EQ(Read(b, &model), "a constant lies outside the weights");
}

}  // namespace
}  // namespace slipway::kernels
