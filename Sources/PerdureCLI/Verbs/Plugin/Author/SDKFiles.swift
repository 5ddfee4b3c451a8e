import CPerdureSDK
import PerdureModel

/// The files that are part of this program for authors of plugins: the kits and the templates.
enum SDKFiles {
  private static let numbers: [String: Int32] = {
    var numbers: [String: Int32] = [:]
    for number in 0..<perdure_sdk_count() {
      let name = bytes(of: number, Int32(PERDURE_SDK_NAME.rawValue))
      numbers[String(decoding: name, as: UTF8.self)] = number
    }
    return numbers
  }()

  /// Returns what is in a file.
  static func bytes(_ name: String) throws(PerdureError) -> [UInt8] {
    guard let number = numbers[name] else {
      throw PerdureError("internal", "this program lacks the file \(name)")
    }
    return bytes(of: number, Int32(PERDURE_SDK_CONTENT.rawValue))
  }

  /// Returns the file of a name, or all below a name that ends in `/`, with the paths there.
  static func files(_ name: String) throws(PerdureError) -> [(path: String, bytes: [UInt8])] {
    guard name.hasSuffix("/") else { return [(name, try bytes(name))] }
    var files: [(path: String, bytes: [UInt8])] = []
    for full in numbers.keys.sorted() where full.hasPrefix(name) {
      files.append((String(full.dropFirst(name.count)), try bytes(full)))
    }
    return files
  }

  /// Returns the text of a file.
  static func text(_ name: String) throws(PerdureError) -> String {
    String(decoding: try bytes(name), as: UTF8.self)
  }

  private static func bytes(of number: Int32, _ part: Int32) -> [UInt8] {
    let count = perdure_sdk_size(number, part)
    var bytes: [UInt8] = []
    bytes.reserveCapacity(Int(count))
    var index: Int64 = 0
    while index < count {
      let word = perdure_sdk_word(number, part, index)
      for place in 0..<min(8, count - index) {
        bytes.append(UInt8(truncatingIfNeeded: word >> UInt64(8 * place)))
      }
      index += 8
    }
    return bytes
  }
}
