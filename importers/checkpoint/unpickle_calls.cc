// What calls of allowed names make: tensors, parameters, containers, subclasses, records.
#include <utility>

#include "absl/strings/str_cat.h"
#include "importers/checkpoint/allowed_names.h"
#include "importers/checkpoint/pickle_names.h"
#include "importers/checkpoint/unpickle_machine.h"
#include "importers/npy/element.h"

namespace slipway::importers {

namespace {

constexpr int kMaxNestedCalls = 4;

}  // namespace

PickleValue* UnpickleMachine::NewRecord(std::string_view name, const Args& args) {
  PickleValue* record = New(PickleKind::kObject);
  record->text_ = name;
  if (!Spend(args.values.size())) return nullptr;
  record->items_.assign(args.values.begin(), args.values.end());
  record->arguments_ = static_cast<uint32_t>(args.values.size());
  return record;
}

PickleValue* UnpickleMachine::NewUnreadable(std::string what) {
  return NewText(PickleKind::kUnreadable, Keep(std::move(what)));
}

// A tensor that is known and not read: an error, or a value that says so.
PickleValue* UnpickleMachine::Unreadable(const std::string& what) {
  if (options_.records) return NewUnreadable(what);
  Fail(absl::StatusCode::kUnimplemented, absl::StrCat(what, " is not supported"));
  return nullptr;
}

PickleValue* UnpickleMachine::Call(const PickleValue* callee, const PickleValue* args_value, int nested) {
  // What a call made may be called in turn: functools.partial, bound methods.
  if (options_.records && callee->is(PickleKind::kObject) && args_value->is(PickleKind::kTuple))
    return NewRecord(callee->text(), {this, callee, args_value->items()});
  if (!callee->is(PickleKind::kGlobal) || !args_value->is(PickleKind::kTuple)) {
    Malformed("a call of something that is not a name, or without a tuple of arguments");
    return nullptr;
  }
  const Args args{this, callee, args_value->items()};
  switch (MakesOf(callee->global_)) {
    case Makes::kInert: return NewRecord(callee->text(), args);
    case Makes::kGetattr: return Getattr(args);
    case Makes::kFromDevice: return args.Count(4, 4) ? MakeFromDevice(args) : nullptr;
    case Makes::kFromBuffer: return args.Count(4, 4) ? MakeFromBuffer(args) : nullptr;
    case Makes::kUnreadable: {
      const std::string what(kAllowedNames[callee->global_].what);
      if (!args.values.empty() && args.values[0]->is(PickleKind::kLayout))
        return NewUnreadable(absl::StrCat(what, " (", ShortText(args.values[0]->text()), ")"));
      if (!args.values.empty() && args.values[0]->is(PickleKind::kStorage))
        return NewUnreadable(absl::StrCat(what, " (torch.", std::string(args.values[0]->storage()->dtype), ")"));
      return NewUnreadable(what);
    }
    case Makes::kWrapperSubclass: Malformed("a tensor subclass is rebuilt without its attributes"); return nullptr;
    case Makes::kNothing:
    case Makes::kStorageClass:
      Malformed(absl::StrCat("a call of ", ShortText(callee->text()), ", which rebuilds no tensor; refused"));
      return nullptr;
    case Makes::kTensor: return args.Count(4, 4) ? MakeTensor(args, 0) : nullptr;
    case Makes::kTensorV2: return args.Count(6, 7) ? MakeTensor(args, 6) : nullptr;
    case Makes::kTensorV3: return args.Count(7, 8) ? MakeTensor(args, 7) : nullptr;
    case Makes::kParameter: return args.Count(3, 3) ? MakeParameter(args) : nullptr;
    case Makes::kParameterWithState: return args.Count(4, 4) ? MakeParameter(args) : nullptr;
    case Makes::kParameterClass: return args.Count(1, 2) ? MakeParameter(args) : nullptr;
    case Makes::kFromType: return args.Count(4, 4) ? MakeFromType(args, nested) : nullptr;
    case Makes::kSize: return MakeSize(args);
    case Makes::kDevice: return MakeDevice(args);
    case Makes::kLayout: {
      if (!args.Count(1, 1)) return nullptr;
      const PickleValue* name = args.Of(0, PickleKind::kString, "a string");
      return name == nullptr ? nullptr : NewText(PickleKind::kLayout, name->text());
    }
    case Makes::kDefaultDict:
      if (!args.values.empty()) {  // the factory, which is never called
        if (!args.values[0]->is(PickleKind::kGlobal) && !args.values[0]->is(PickleKind::kNone) &&
            !(options_.records && args.values[0]->is(PickleKind::kObject))) {
          args.Of(0, PickleKind::kGlobal, "a class");
          return nullptr;
        }
        return MakeDict({this, callee, args.values.subspan(1)});
      }
      return MakeDict(args);
    case Makes::kDict: return MakeDict(args);
    case Makes::kSet: return MakeSet(args);
    case Makes::kBytes:
    case Makes::kByteArray:
      if (!args.Count(0, 2)) return nullptr;
      if (args.values.empty()) return NewText(PickleKind::kBytes, "");
      if (args.values.size() == 1 && args.values[0]->is(PickleKind::kBytes)) {
        return NewText(PickleKind::kBytes, args.values[0]->text());
      }
      return MakeEncoded(args);
    case Makes::kEncoded: return MakeEncoded(args);
    case Makes::kComplex: {
      if (!args.Count(2, 2)) return nullptr;
      PickleValue* value = New(PickleKind::kComplex);
      for (size_t i = 0; i < 2; ++i) {
        const PickleValue* part = args.Of(i, PickleKind::kFloat, "a float");
        if (part == nullptr) return nullptr;
        (i == 0 ? value->real_ : value->imag_) = part->real();
      }
      return value;
    }
  }
  return nullptr;
}

PickleValue* UnpickleMachine::MakeSet(const Args& args) {
  if (!args.Count(0, 1)) return nullptr;
  PickleValue* set = New(PickleKind::kSet);
  if (args.values.empty()) return set;
  const bool tuple = args.values[0]->is(PickleKind::kTuple);
  const PickleValue* list = tuple ? args.values[0] : args.Of(0, PickleKind::kList, "a list");
  if (list == nullptr || !Spend(list->items().size())) return nullptr;
  set->items_ = list->items_;
  return set;
}

PickleValue* UnpickleMachine::MakeSize(const Args& args) {
  std::vector<int64_t> sizes;
  if (!args.Count(0, 1)) return nullptr;
  if (args.values.empty()) return New(PickleKind::kTuple);
  if (!args.Ints(0, &sizes)) return nullptr;
  return NewFilled(PickleKind::kTuple, args.values[0]->items_);
}

PickleValue* UnpickleMachine::MakeDevice(const Args& args) {
  if (!args.Count(1, 2)) return nullptr;
  const PickleValue* type = args.Of(0, PickleKind::kString, "a string");
  if (type == nullptr) return nullptr;
  if (args.values.size() == 1 || args.values[1]->is(PickleKind::kNone)) {
    return NewText(PickleKind::kDevice, type->text());
  }
  const PickleValue* index = args.Of(1, PickleKind::kInt, "an integer");
  if (index == nullptr) return nullptr;
  return NewText(PickleKind::kDevice, Keep(absl::StrCat(std::string(type->text()), ":", index->integer())));
}

// dict(), dict(d) or dict([(k, v), …]).
PickleValue* UnpickleMachine::MakeDict(const Args& args) {
  if (!args.Count(0, 1)) return nullptr;
  PickleValue* dict = New(PickleKind::kDict);
  if (args.values.empty()) return dict;
  if (!Spend(args.values[0]->items().size())) return nullptr;
  if (args.values[0]->is(PickleKind::kDict)) {
    dict->items_ = args.values[0]->items_;
    return dict;
  }
  const PickleValue* list = args.Of(0, PickleKind::kList, "a dict or a list of pairs");
  if (list == nullptr) return nullptr;
  for (const PickleValue* pair : list->items()) {
    if (!(pair->is(PickleKind::kTuple) || pair->is(PickleKind::kList)) || pair->items().size() != 2) {
      Malformed(absl::StrCat(ShortText(args.callee->text()), " is called with something that is not a list of pairs"));
      return nullptr;
    }
    SetItems(dict, pair->items_);
  }
  return dict;
}

// ShortText whose characters stand for bytes: how protocol 2 writes bytes.
PickleValue* UnpickleMachine::MakeEncoded(const Args& args) {
  if (!args.Count(2, 2)) return nullptr;
  const PickleValue* text = args.Of(0, PickleKind::kString, "a string");
  const PickleValue* codec = args.Of(1, PickleKind::kString, "a string");
  if (text == nullptr || codec == nullptr) return nullptr;
  if (codec->text() != "latin1" && codec->text() != "latin-1") {
    Malformed(absl::StrCat("the encoding '", ShortText(codec->text()), "' is not one that stands for bytes; refused"));
    return nullptr;
  }
  if (!Spend(text->text().size())) return nullptr;
  std::string bytes;
  const std::string_view utf8 = text->text();  // valid: NewString() has checked
  for (size_t i = 0; i < utf8.size(); ++i) {
    const uint8_t lead = static_cast<uint8_t>(utf8[i]);
    if (lead < 0x80) {
      bytes.push_back(utf8[i]);
    } else if (lead <= 0xc3 && i + 1 < utf8.size()) {
      bytes.push_back(static_cast<char>((lead & 3) << 6 | (static_cast<uint8_t>(utf8[++i]) & 0x3f)));
    } else {
      Malformed("a character above 255 stands for a byte");
      return nullptr;
    }
  }
  return NewText(PickleKind::kBytes, Keep(std::move(bytes)));
}

// (storage, offset, sizes, strides[, requires_grad, hooks[, dtype][, metadata]]); `metadata_at` is the place of the
// last one, 0 where there is none.
PickleValue* UnpickleMachine::MakeTensor(const Args& args, size_t metadata_at) {
  const PickleValue* storage = args.Of(0, PickleKind::kStorage, "a storage");
  const PickleValue* offset = args.Of(1, PickleKind::kInt, "an integer");
  auto tensor = std::make_unique<PickleTensor>();
  if (storage == nullptr || offset == nullptr || !args.Ints(2, &tensor->sizes) || !args.Ints(3, &tensor->strides)) {
    return nullptr;
  }
  tensor->storage = *storage->storage();
  tensor->dtype = tensor->storage.dtype;
  tensor->offset = offset->integer();
  if (metadata_at != 0) {
    const PickleValue* requires_grad = args.Of(4, PickleKind::kBool, "a boolean");
    if (requires_grad == nullptr) return nullptr;
    tensor->requires_grad = requires_grad->boolean();
  }
  if (metadata_at == 7) {
    const PickleValue* dtype = args.Of(6, PickleKind::kDtype, "a dtype");
    if (dtype == nullptr) return nullptr;
    tensor->dtype = dtype->text();
  }
  if (metadata_at != 0 && args.values.size() > metadata_at) {
    std::string_view lazy;
    if (!CheckMetadata(args, metadata_at, &lazy)) return nullptr;
    if (!lazy.empty()) return Unreadable(absl::StrCat("a tensor saved as a lazy ", std::string(lazy), " view"));
  }
  tensor->item_size = TorchItemSize(tensor->dtype);
  if (tensor->item_size == 0) {
    return Unreadable(absl::StrCat("a tensor of dtype ", ShortText(tensor->dtype)));
  }
  if (tensor->sizes.size() != tensor->strides.size() || tensor->sizes.size() > kMaxTensorRank) {
    Malformed(absl::StrCat("a tensor has ", tensor->sizes.size(), " sizes and ", tensor->strides.size(), " strides"));
    return nullptr;
  }
  if (!LiesInside(*tensor)) {
    Malformed(absl::StrCat("a tensor of dtype ", ShortText(tensor->dtype), " at offset ", tensor->offset,
                           " does not lie inside its storage '", ShortText(tensor->storage.key), "' of ",
                           tensor->storage.bytes, " bytes"));
    return nullptr;
  }
  PickleValue* value = New(PickleKind::kTensor);
  value->tensor_ = std::move(tensor);
  return value;
}

// Bits that change what the stored numbers mean must not be dropped: `lazy` is the one that is set.
bool UnpickleMachine::CheckMetadata(const Args& args, size_t at, std::string_view* lazy) {
  if (args.values[at]->is(PickleKind::kNone)) return true;
  const PickleValue* metadata = args.Of(at, PickleKind::kDict, "a dict");
  if (metadata == nullptr || !Spend(metadata->items().size())) return false;
  for (std::string_view bit : {"conj", "neg"}) {
    const PickleValue* set = metadata->Find(bit);
    if (set != nullptr && !(set->is(PickleKind::kBool) && !set->boolean())) *lazy = bit;
  }
  return true;
}

// (tensor[, requires_grad[, hooks[, attributes]]])
PickleValue* UnpickleMachine::MakeParameter(const Args& args) {
  if (options_.records && !args.values.empty()) {
    const PickleValue* data = args.values[0];
    if (data->is(PickleKind::kObject))
      return NewUnreadable(absl::StrCat("a tensor of the class ", DottedName(data->text())));
    if (data->is(PickleKind::kUnreadable)) return NewText(PickleKind::kUnreadable, data->text());
    if (data->is(PickleKind::kSubclass)) return NewSubclass(data->text(), data->items_[0], data->items_[1]);
  }
  if (!args.values.empty() && args.values[0]->is(PickleKind::kDict)) {  // a tensor subclass, as its attributes
    PickleValue* subclass = New(PickleKind::kDict);
    if (!Spend(args.values[0]->items().size())) return nullptr;
    subclass->items_.assign(args.values[0]->items().begin(), args.values[0]->items().end());
    return subclass;
  }
  // A parameter of what the caller lets pass is the record of it.
  if (!args.values.empty() && args.values[0]->is(PickleKind::kObject))
    return NewRecord(args.values[0]->text(), {this, args.callee, args.values[0]->items()});
  const PickleValue* data = args.Of(0, PickleKind::kTensor, "a tensor");
  if (data == nullptr) return nullptr;
  bool requires_grad = true;
  if (args.values.size() > 1) {
    const PickleValue* given = args.Of(1, PickleKind::kBool, "a boolean");
    if (given == nullptr) return nullptr;
    requires_grad = given->boolean();
  }
  PickleValue* value = New(PickleKind::kTensor);
  value->tensor_ = std::make_unique<PickleTensor>(*data->tensor_);
  value->tensor_->is_parameter = true;
  value->tensor_->requires_grad = requires_grad;
  return value;
}

// (rebuilding function, class, its arguments, Python attributes): a tensor with attributes, which are dropped.
PickleValue* UnpickleMachine::MakeFromType(const Args& args, int nested) {
  const PickleValue* function = args.Of(0, PickleKind::kGlobal, "a function");
  const PickleValue* type = args.Of(1, PickleKind::kGlobal, "a class");
  const PickleValue* arguments = args.Of(2, PickleKind::kTuple, "a tuple");
  if (options_.records && function != nullptr && type != nullptr && arguments != nullptr)
    return MakeFromAnyType(args, nested);
  if (function == nullptr || type == nullptr || arguments == nullptr) return nullptr;
  if (nested >= kMaxNestedCalls) {
    Malformed("calls nest too deeply");
    return nullptr;
  }
  if (MakesOf(function->global_) == Makes::kWrapperSubclass) {
    // A tensor subclass: what it is made of is in the attributes, which stand for it.
    const PickleValue* attributes = args.Of(3, PickleKind::kDict, "a dict of attributes");
    if (attributes == nullptr) return nullptr;
    PickleValue* subclass = New(PickleKind::kDict);
    if (!Spend(attributes->items().size())) return nullptr;
    subclass->items_.assign(attributes->items().begin(), attributes->items().end());
    return subclass;
  }
  const bool is_parameter = type->text() == "torch.nn.parameter Parameter";
  if (!is_parameter && type->text() != "torch Tensor") {
    Malformed(absl::StrCat("a tensor is rebuilt as ", ShortText(type->text())));
    return nullptr;
  }
  PickleValue* value = Call(function, arguments, nested + 1);
  if (value == nullptr) return nullptr;
  if (!value->is(PickleKind::kTensor)) {
    Malformed(absl::StrCat(ShortText(function->text()), " does not rebuild a tensor"));
    return nullptr;
  }
  if (is_parameter) value->tensor_->is_parameter = true;
  return value;
}

// The same of any class. A plain tensor of a subclass of torch.Tensor is a tensor; what the class adds to it is
// dropped.
PickleValue* UnpickleMachine::MakeFromAnyType(const Args& args, int nested) {
  const PickleValue *function = args.values[0], *type = args.values[1], *arguments = args.values[2];
  if (nested >= kMaxNestedCalls) {
    Malformed("calls nest too deeply");
    return nullptr;
  }
  if (MakesOf(function->global_) == Makes::kWrapperSubclass) {
    // A dict, or with __slots__ (a dict or None, a dict).
    const PickleValue* state = args.values[3];
    PickleValue* attributes = New(PickleKind::kDict);
    const auto add = [&](const PickleValue& part) {
      if (part.is(PickleKind::kDict) && Spend(part.items().size()))
        attributes->items_.insert(attributes->items_.end(), part.items().begin(), part.items().end());
    };
    add(*state);
    if (state->is(PickleKind::kTuple))
      for (const PickleValue* part : state->items()) add(*part);
    if (!status_.ok()) return nullptr;
    return NewSubclass(type->text(), arguments, attributes);
  }
  PickleValue* value = Call(function, arguments, nested + 1);
  if (value == nullptr || value->is(PickleKind::kUnreadable) || value->is(PickleKind::kSubclass)) return value;
  if (!value->is(PickleKind::kTensor))
    return NewUnreadable(absl::StrCat("a tensor of the class ", DottedName(type->text())));
  value->tensor_->is_parameter |= type->text() == "torch.nn.parameter Parameter";
  return value;
}

PickleValue* UnpickleMachine::NewSubclass(std::string_view type, const PickleValue* arguments,
                                          const PickleValue* attributes) {
  PickleValue* value = NewFilled(PickleKind::kSubclass, {arguments, attributes});
  value->text_ = type;
  return value;
}

// (object, name): a class within a class, a method. Nothing is looked up: it is a name with a longer path.
PickleValue* UnpickleMachine::Getattr(const Args& args) {
  if (!args.Count(2, 2)) return nullptr;
  const PickleValue* name = args.Of(1, PickleKind::kString, "a string");
  if (name == nullptr) return nullptr;
  if (!args.values[0]->is(PickleKind::kGlobal)) return NewRecord(args.callee->text(), args);
  const std::string_view of = args.values[0]->text();
  const size_t space = of.find(' ');
  if (!Spend(of.size() + name->text().size())) return nullptr;
  return NewGlobal(Keep(std::string(of.substr(0, space))),
                   Keep(absl::StrCat(std::string(of.substr(space + 1)), ".", std::string(name->text()))));
}

// (tensor or array, dtype, device, requires_grad)
PickleValue* UnpickleMachine::MakeFromDevice(const Args& args) {
  const PickleValue* dtype = args.Of(1, PickleKind::kDtype, "a dtype");
  if (dtype == nullptr) return nullptr;
  const PickleValue* data = args.values[0];
  const PickleTensor* held = data->is(PickleKind::kArray) ? data->array() : data->tensor();
  if (held == nullptr || held->dtype != dtype->text())
    return NewUnreadable(absl::StrCat("a tensor of another device, of dtype ", ShortText(dtype->text())));
  PickleValue* value = NewText(data->kind(), data->text());
  value->tensor_ = std::make_unique<PickleTensor>(*held);
  return value;
}

}  // namespace slipway::importers
