import PerdureModel
import PerdureValue

/// The text of a file as edits see it: without a byte order mark, and with LF alone at the ends of
/// lines.
///
/// It knows where each of its bytes stands in the file, so that what no edit touches stays as it is.
struct EditableText: Sendable {
  /// The bytes of the file.
  let file: [UInt8]
  /// The text, whose offsets edits use.
  let text: [UInt8]
  /// What ends most lines of the file.
  let usesCRLF: Bool
  private let mark: Int
  /// The LF in the text that have a CR before them in the file.
  private let returns: [Int]

  /// Throws for what is no UTF-8, which could not be written back as it was.
  init(_ file: [UInt8], _ path: String, hasShell: Bool) throws {
    let encoding = TextEncoding.detect(file).encoding
    guard encoding != .utf8 || !file.prefix(8_192).contains(0) else {
      throw PerdureError(
        .invalidInput,
        "\(path.quotedForMessage) is a binary file of \(Wording.count(file.count, "byte")), which edit"
          + " would break",
        hint: hasShell ? "change it with a program of the shell" : nil
      )
    }
    guard String(validating: file, as: UTF8.self) != nil else {
      throw PerdureError(
        .invalidInput,
        "\(path.quotedForMessage) is \(encoding == .utf8 ? "no UTF-8 text" : encoding.name)",
        hint: hasShell ? "change it with a program that keeps its encoding" : nil
      )
    }
    self.file = file
    mark = file.starts(with: [0xEF, 0xBB, 0xBF]) ? 3 : 0
    guard file.contains(0x0D) else {
      text = mark == 0 ? file : Array(file[mark...])
      returns = []
      usesCRLF = false
      return
    }
    var text: [UInt8] = []
    text.reserveCapacity(file.count)
    var returns: [Int] = []
    var newlines = 0
    var index = mark
    while index < file.count {
      if file[index] == 0x0D, index + 1 < file.count, file[index + 1] == 0x0A {
        returns.append(text.count)
        index += 1
      }
      if file[index] == 0x0A { newlines += 1 }
      text.append(file[index])
      index += 1
    }
    let isFirstCRLF = returns.first.map { !text[..<$0].contains(0x0A) } ?? false
    let plain = newlines - returns.count
    usesCRLF = returns.count == plain ? isFirstCRLF : returns.count > plain
    self.text = text
    self.returns = returns
  }

  /// Where a place of the text is in the file; before the CR of a line's end.
  private func filePlace(_ place: Int) -> Int {
    var (low, high) = (0, returns.count)
    while low < high {
      let middle = (low + high) / 2
      if returns[middle] < place { low = middle + 1 } else { high = middle }
    }
    return mark + place + low
  }

  /// The file with other texts in these places, which are in order and do not overlap.
  func file(replacing changes: [TextChange]) -> [UInt8] {
    var result: [UInt8] = []
    result.reserveCapacity(file.count + changes.reduce(0) { $0 + $1.text.count })
    var start = 0
    for change in changes {
      result += file[start..<filePlace(change.range.lowerBound)]
      result += usesCRLF ? Self.withReturns(change.text) : change.text
      start = filePlace(change.range.upperBound)
    }
    return result + file[start...]
  }

  private static func withReturns(_ text: [UInt8]) -> [UInt8] {
    var result: [UInt8] = []
    for byte in text {
      if byte == 0x0A { result.append(0x0D) }
      result.append(byte)
    }
    return result
  }

  /// A text of an edit with LF alone at the ends of lines.
  static func withoutReturns(_ text: String) -> [UInt8] {
    let bytes = Array(text.utf8)
    guard bytes.contains(0x0D) else { return bytes }
    return bytes.indices.filter { index in
      bytes[index] != 0x0D || index + 1 == bytes.count || bytes[index + 1] != 0x0A
    }
    .map { bytes[$0] }
  }
}

/// A part of a text and what takes its place.
struct TextChange: Sendable, Equatable {
  var range: Range<Int>
  var text: [UInt8]
  /// Which of the edits it is, from 0.
  var edit: Int
}
