/// What a file is that holds an image, as its content says.
struct ImageFile: Sendable, Equatable {
  /// The kinds that are known.
  enum Kind: String, Sendable {
    case png = "image/png"
    case jpeg = "image/jpeg"
    case gif = "image/gif"
    case webp = "image/webp"
    case bmp = "image/bmp"
  }

  var kind: Kind
  var width: Int?
  var height: Int?

  /// The most that is shown of an image without being made smaller.
  static let maxBytes: Int64 = 3_500_000
  static let maxPixels = 2_000

  /// Looks at the first bytes of a file; `nil` for what is no image that can be shown.
  init?(_ head: [UInt8]) {
    if head.starts(with: [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]) {
      guard head.count >= 33, Self.text(head, 12, 4) == "IHDR", !Self.isAnimated(head) else {
        return nil
      }
      self.init(.png, Self.big(head, 16), Self.big(head, 20))
    } else if head.starts(with: [0xFF, 0xD8, 0xFF]), head.count > 3, head[3] != 0xF7 {
      let size = Self.jpegSize(head)
      self.init(.jpeg, size?.width, size?.height)
    } else if ["GIF87a", "GIF89a"].contains(Self.text(head, 0, 6)), head.count >= 10 {
      self.init(.gif, Self.little(head, 6), Self.little(head, 8))
    } else if Self.text(head, 0, 4) == "RIFF", Self.text(head, 8, 4) == "WEBP" {
      let size = Self.webpSize(head)
      self.init(.webp, size?.width, size?.height)
    } else if Self.text(head, 0, 2) == "BM", head.count >= 26, head[14] >= 40, head[15] == 0 {
      self.init(.bmp, Self.little(head, 18), Self.little(head, 22))
    } else {
      return nil
    }
  }

  private init(_ kind: Kind, _ width: Int?, _ height: Int?) {
    self.kind = kind
    self.width = width
    self.height = height
  }

  private static func text(_ head: [UInt8], _ start: Int, _ count: Int) -> String? {
    guard head.count >= start + count else { return nil }
    return String(decoding: head[start..<(start + count)], as: UTF8.self)
  }

  private static func big(_ head: [UInt8], _ at: Int) -> Int {
    head[at..<(at + 4)].reduce(0) { $0 << 8 | Int($1) }
  }

  private static func little(_ head: [UInt8], _ at: Int) -> Int {
    Int(head[at]) | Int(head[at + 1]) << 8
  }

  /// Whether a PNG has a chunk that makes it move before its first picture.
  private static func isAnimated(_ head: [UInt8]) -> Bool {
    var at = 8
    while at + 8 <= head.count {
      switch text(head, at + 4, 4) {
      case "acTL": return true
      case "IDAT": return false
      default: at += 12 + big(head, at)
      }
    }
    return false
  }

  private static func jpegSize(_ head: [UInt8]) -> (width: Int, height: Int)? {
    var at = 2
    while at + 9 <= head.count, head[at] == 0xFF {
      let marker = head[at + 1]
      let isFrame = (0xC0...0xCF).contains(marker) && ![0xC4, 0xC8, 0xCC].contains(marker)
      if isFrame {
        return (
          Int(head[at + 7]) << 8 | Int(head[at + 8]), Int(head[at + 5]) << 8 | Int(head[at + 6])
        )
      }
      at += 2 + (Int(head[at + 2]) << 8 | Int(head[at + 3]))
    }
    return nil
  }

  private static func webpSize(_ head: [UInt8]) -> (width: Int, height: Int)? {
    guard head.count >= 30 else { return nil }
    switch text(head, 12, 4) {
    case "VP8 ": return (little(head, 26) & 0x3FFF, little(head, 28) & 0x3FFF)
    case "VP8L":
      let bits = little(head, 21) | little(head, 23) << 16
      return ((bits & 0x3FFF) + 1, ((bits >> 14) & 0x3FFF) + 1)
    case "VP8X":
      return (
        (little(head, 24) | Int(head[26]) << 16) + 1, (little(head, 27) | Int(head[29]) << 16) + 1
      )
    default: return nil
    }
  }
}
