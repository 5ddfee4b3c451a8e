import PerdureValue
import Synchronization

/// The images that a call was shown: without their bytes, each with a source to ask for them.
final class ImageTable: Sendable {
  private let images = Mutex<[JSON]>([])

  /// Gives the same value with every image replaced by what stands for it.
  func elided(_ value: JSON) -> JSON {
    Self.hasImage(value) ? elide(value) : value
  }

  private static func isImage(_ object: JSONObject) -> Bool {
    object["type"] == "image" && object["data"]?.string != nil
      && object["mimeType"]?.string != nil
  }

  private static func hasImage(_ value: JSON) -> Bool {
    switch value {
    case .object(let object): isImage(object) || object.values.contains(where: hasImage)
    case .array(let values): values.contains(where: hasImage)
    default: false
    }
  }

  private func elide(_ value: JSON) -> JSON {
    switch value {
    case .array(let values): return .array(values.map(elide))
    case .object(let object):
      guard Self.isImage(object), let data = object["data"]?.string else {
        return .object(JSONObject(object.map { ($0.key, elide($0.value)) }))
      }
      let number = images.withLock { images in
        images.append(value)
        return images.count - 1
      }
      var elided = object
      elided["data"] = nil
      elided["bytes"] = .int(Int64(Base64.decodedCount(data.string)))
      elided["source"] = .string("m\(number)")
      return .object(elided)
    default: return value
    }
  }

  /// Gives the value with every source replaced by the image it stands for.
  ///
  /// Throws if a source is none of this call.
  func restored(_ value: JSON, at pointer: String) throws(BorderProblem) -> JSON {
    switch value {
    case .array(let values):
      var restored: [JSON] = []
      for (index, value) in values.enumerated() {
        restored.append(try self.restored(value, at: "\(pointer)/\(index)"))
      }
      return .array(restored)
    case .object(let object):
      if object["type"] == "image", let source = object["source"]?.string {
        guard let image = image(source.string) else {
          throw .shape("an image whose source this call was not given", at: pointer + "/source")
        }
        return image
      }
      var restored = JSONObject()
      for (key, value) in object {
        restored[key] = try self.restored(value, at: "\(pointer)/\(key.string)")
      }
      return .object(restored)
    default: return value
    }
  }

  /// The whole image of a source, or `nil`.
  func image(_ source: String) -> JSON? {
    guard source.hasPrefix("m"), let number = Int(source.dropFirst()) else { return nil }
    return images.withLock { $0.indices.contains(number) ? $0[number] : nil }
  }

  /// The bytes of a source and their media type, or `nil`.
  func content(_ source: String) -> (bytes: [UInt8], type: MediaType)? {
    guard let image = image(source), let data = image["data"]?.text,
      let bytes = Base64.decode(data)
    else { return nil }
    return (bytes, image["mimeType"]?.text.flatMap(MediaType.init(name:)) ?? .bytes)
  }
}

extension Base64 {
  /// How many bytes a text stands for.
  static func decodedCount(_ text: String) -> Int {
    let bytes = text.utf8.filter { value(of: $0) != nil }.count
    return bytes * 3 / 4
  }

  private static func value(of byte: UInt8) -> UInt32? {
    switch byte {
    case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(byte - UInt8(ascii: "A"))
    case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(byte - UInt8(ascii: "a") + 26)
    case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(byte - UInt8(ascii: "0") + 52)
    case UInt8(ascii: "+"), UInt8(ascii: "-"): 62
    case UInt8(ascii: "/"), UInt8(ascii: "_"): 63
    default: nil
    }
  }

  /// Gives the bytes that a text stands for, or `nil` if it is no base64.
  static func decode(_ text: String) -> [UInt8]? {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(text.utf8.count * 3 / 4)
    var word: UInt32 = 0
    var bits = 0
    for byte in text.utf8 {
      if byte == UInt8(ascii: "=") || byte == UInt8(ascii: "\n") { continue }
      guard let value = value(of: byte) else { return nil }
      word = word << 6 | value
      bits += 6
      if bits >= 8 {
        bits -= 8
        bytes.append(UInt8(truncatingIfNeeded: word >> UInt32(bits)))
      }
    }
    return bytes
  }
}
