// Reading configurations. (placeholder until the parser lands)
#include "quantizer/config.h"
#include "base/text.h"
#include "absl/strings/str_split.h"
namespace slipway::quantizer {
absl::StatusOr<Config> ParseShortName(std::string_view text) {
  Config c; std::vector<std::string> p = absl::StrSplit(std::string(text), absl::ByAnyChar(":,"));
  using S=Config::Scheme; const std::string& n=p[0];
  if(n=="int8-weight-only")c.scheme=S::kInt8WeightOnly; else if(n=="int8-dynamic")c.scheme=S::kInt8Dynamic;
  else if(n=="intx")c.scheme=S::kIntxWeightOnly; else if(n=="8da4w"){c.scheme=S::kInt8DynamicIntx;c.bits=4;c.granularity={Granularity::kGroup,32};c.act_mapping=Mapping::kAsymmetric;}
  else if(n=="int4-weight-only"){c.scheme=S::kInt4WeightOnly;c.granularity={Granularity::kGroup,128};c.bits=4;}
  else if(n=="float8-weight-only")c.scheme=S::kFloat8WeightOnly; else if(n=="mxfp8"){c.scheme=S::kMx;} else if(n=="mxfp4"){c.scheme=S::kMx;c.element=ir::DType::kFloat4E2M1;}
  else if(n=="nvfp4")c.scheme=S::kNvfp4WeightOnly; else return absl::InvalidArgumentError("name");
  for(size_t i=1;i<p.size();++i){std::vector<std::string> kv=absl::StrSplit(p[i],'=');std::string k=kv[0],v=kv.size()>1?kv[1]:"";
    if(k=="group")c.granularity={Granularity::kGroup,atoi(v.c_str())}; else if(k=="per")c.granularity={v=="row"?Granularity::kRow:Granularity::kTensor,0};
    else if(k=="bits")c.bits=atoi(v.c_str()); else if(k=="mapping")c.mapping=v=="asymmetric"?Mapping::kAsymmetric:v=="symmetric"?Mapping::kSymmetric:Mapping::kSymmetricNoClippingErr;
    else if(k=="hqq")c.hqq=true; else if(k=="cpu")c.int4_cpu=true; else if(k=="scale")c.scale_dtype=v=="bf16"?ir::DType::kBFloat16:ir::DType::kFloat32; else if(k=="element")c.element=v=="e5m2"?ir::DType::kFloat8E5M2:ir::DType::kFloat8E4M3FN;
    else if(k=="scaling")c.mx_scaling=v=="floor"?MxScaling::kFloor:v=="ceil"?MxScaling::kCeil:v=="even"?MxScaling::kEven:MxScaling::kRceil; else if(k=="reduce-range")c.reduce_range=true; else if(k=="one-level")c.per_tensor_scale=false; else return absl::InvalidArgumentError(k);}
  return c;
}
}
