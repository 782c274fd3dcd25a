// What `minify --json` prints.
#include "base/json.h"
#include "driver/minify/minify.h"

namespace slipway::driver {

std::string ToJson(const MinifyOptions& o, const MinifyReport& r) {
  json::Writer w;
  w.BeginObject().Key("version").Int(1).Key("output").String(o.folder).Key("check").String(o.check);
  w.Key("failure").String(r.failure).Key("nodes_before").Int(r.reached.nodes_before).Key("nodes").Int(r.reached.nodes);
  w.Key("inputs").Int(r.reached.inputs).Key("probes").Int(r.reached.probes).Key("asked").Int(r.asked);
  w.Key("stopped").Bool(r.stopped).Key("notes").BeginArray();
  for (const std::string& note : r.notes) w.String(note);
  w.EndArray().EndObject();
  return w.Take() + "\n";
}

}  // namespace slipway::driver
