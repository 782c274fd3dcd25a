// Headers for one model: names and texts of files stay inside identifiers and comments.
#include "exporters/native/c_header.h"

#include <gtest/gtest.h>

#include <limits>

namespace slipway::exporters {
namespace {

using kernels::DType;

TEST(CHeader, NamesCannotLeaveTheirPlace) {
  NativeInterface m;
  m.name =
      "end */ int x; /* \\\n?"
      "?/ \xe2\x80\xae";
  m.inputs = {{"a.b", DType::kF32, {"B", "B", "3", "2*B*/1"}, false},
              {"a_b", DType::kBF16, {}, false},
              {"A_B", DType::kBool, {}, true}};
  m.outputs = {{"*/",
                DType::kI64,
                {"?"
                 "?/"},
                false}};
  m.dims = {{"B */", 0, std::numeric_limits<int64_t>::max()}};
  const std::string text = CHeader(m, "2-nets");
  // Comments begin and end in turn, on one line or over several, and hold nothing that begins another.
  bool inside = false;
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    const std::string_view two = std::string_view(text).substr(i, 2);
    EXPECT_NE(two,
              "?"
              "?");
    EXPECT_LT(static_cast<unsigned char>(text[i]), 0x80);
    if (two != "/*" && two != "*/") continue;
    EXPECT_EQ(inside, two == "*/") << text.substr(0, i + 2);
    inside = !inside;
    ++i;
  }
  EXPECT_FALSE(inside);
  EXPECT_EQ(text.find("\\"), std::string::npos);
  for (const char* line :
       {"MODEL_2_NETS_IN_A_B = 0", "MODEL_2_NETS_IN_A_B_2 = 1", "MODEL_2_NETS_IN_A_B_3 = 2", "MODEL_2_NETS_INPUTS = 3",
        "model_2_nets_in_a_b(const float* data, int64_t shape[4], int64_t size_B, int64_t size_of_dim_3)",
        "model_2_nets_in_a_b_2(const uint16_t* data, int64_t shape[1])", "B * / = 0 and more"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
}

TEST(CHeader, OfNothing) {
  const std::string text = CHeader({"", {}, {}, {}}, "m");
  EXPECT_NE(text.find("M_INPUTS = 0"), std::string::npos);
  EXPECT_NE(text.find("m_run(slipway_model* model, const DLTensor inputs[1]"), std::string::npos);
}

}  // namespace
}  // namespace slipway::exporters
