public import PerdureValue

/// Bytes with a media type, as they cross the border.
public struct Payload: Sendable, Equatable {
  /// Empty means JSON.
  public var mediaType: String
  public var bytes: [UInt8]

  /// Makes a payload of any kind.
  public init(mediaType: String, bytes: [UInt8]) {
    self.mediaType = mediaType
    self.bytes = bytes
  }

  /// Makes a payload of JSON.
  public init(_ json: JSON) { self.init(mediaType: "application/json", bytes: json.encoded) }

  /// Makes a payload of a text.
  public static func text(_ text: String) -> Payload {
    Payload(mediaType: "text/plain", bytes: Array(text.utf8))
  }

  /// Makes JSON with bytes beside it: `{"part": 1}` in the JSON stands for the first of `parts`.
  public static func parts(_ json: JSON, _ parts: [[UInt8]]) -> Payload {
    let all = [json.encoded] + parts
    var bytes = Array("PDRP".utf8)
    append(1, 4, to: &bytes)
    append(UInt64(all.count), 4, to: &bytes)
    append(0, 4, to: &bytes)
    for part in all { append(UInt64(part.count), 8, to: &bytes) }
    for part in all {
      bytes += part
      bytes += [UInt8](repeating: 0, count: (8 - bytes.count % 8) % 8)
    }
    return Payload(mediaType: "application/vnd.perdure.parts", bytes: bytes)
  }

  /// The value as JSON; throws `encoding` if it is something else.
  ///
  /// No bytes are an empty object.
  public func json() throws(PluginError) -> JSON {
    guard mediaType.isEmpty || mediaType == "application/json" else {
      throw PluginError(.encoding, "a value is \(mediaType) and not JSON", reason: "media_type")
    }
    if bytes.isEmpty { return [:] }
    do throws(JSONError) { return try JSON(parsing: bytes, options: .border) } catch {
      throw PluginError(.encoding, "a value is no JSON: \(error)", reason: "json")
    }
  }

  private static func append(_ number: UInt64, _ count: Int, to bytes: inout [UInt8]) {
    for position in 0..<count {
      bytes.append(UInt8(truncatingIfNeeded: number >> UInt64(8 * position)))
    }
  }
}
