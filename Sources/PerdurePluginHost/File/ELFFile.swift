/// What is wrong with a file that should be a shared library; the text follows the file's name.
struct ELFProblem: Error {
  var message: String
  var hint: String

  init(_ message: String, hint: String) {
    self.message = message
    self.hint = hint
  }
}

/// A shared library as bytes.
///
/// Reads nothing outside them, whatever they claim.
struct ELFFile {
  /// A symbol that the library offers to others.
  struct Symbol: Equatable {
    var name: String
    var isUnique: Bool
    /// Whether it can be called.
    var isFunction = false
  }

  let bytes: [UInt8]
  private(set) var needed: [String] = []
  private(set) var runPaths: [String] = []
  private(set) var exports: [Symbol] = []
  private(set) var hasTextRelocations = false
  private(set) var hasExecutableStack = false

  private var sections: [Section] = []
  private var segments: [Segment] = []

  private struct Section {
    var name: String
    var type: UInt32
    var offset: UInt64
    var size: UInt64
  }

  private struct Segment {
    var type: UInt32
    var flags: UInt32
    var offset: UInt64
    var address: UInt64
    var size: UInt64
  }

  private static let nameLimit = 4_096
  private static let tableLimit = 1 << 20

  private static let dynamicSegment: UInt32 = 2
  private static let noteSegment: UInt32 = 4
  private static let stackSegment: UInt32 = 0x6474_e551
  private static let loadSegment: UInt32 = 1
  private static let noBits: UInt32 = 8

  #if arch(arm64)
  private static let machine: (number: UInt16, name: String) = (183, "AArch64")
  #else
  private static let machine: (number: UInt16, name: String) = (62, "x86-64")
  #endif

  /// Reads the tables; what makes the file useless here is thrown.
  init(_ bytes: [UInt8]) throws(ELFProblem) {
    self.bytes = bytes
    try checkHeader()
    readSegments()
    readSections()
    readDynamic()
  }

  private func checkHeader() throws(ELFProblem) {
    let hint = "build it as a shared library, with cc -shared -fPIC"
    guard bytes.count >= 64, bytes.starts(with: [0x7F, 0x45, 0x4C, 0x46]) else {
      throw ELFProblem("is not an ELF file", hint: hint)
    }
    guard bytes[4] == 2, bytes[5] == 1 else {
      throw ELFProblem(
        "is not a 64-bit little-endian ELF file",
        hint: "build it for \(Self.machine.name)"
      )
    }
    let machine = u16(18) ?? 0
    guard machine == Self.machine.number else {
      throw ELFProblem(
        "is built for another machine (ELF machine \(machine), this host is \(Self.machine.name))",
        hint: "build it for \(Self.machine.name)"
      )
    }
    guard u16(16) == 3 else { throw ELFProblem("is not a shared library", hint: hint) }
  }

  private mutating func readSegments() {
    guard let offset = u64(32), let size = u16(54), let count = u16(56), size >= 56 else { return }
    for index in 0..<UInt64(count) {
      guard let at = place(offset, index, UInt64(size)), let type = u32(at),
        let flags = u32(at + 4), let start = u64(at + 8), let address = u64(at + 16),
        let length = u64(at + 32)
      else { return }
      segments.append(
        Segment(type: type, flags: flags, offset: start, address: address, size: length)
      )
    }
    hasExecutableStack = segments.contains { $0.type == Self.stackSegment && $0.flags & 1 != 0 }
  }

  private mutating func readSections() {
    guard let offset = u64(40), offset != 0, let size = u16(58), let count = u16(60),
      let namesIndex = u16(62), size >= 64,
      let names = place(offset, UInt64(namesIndex), UInt64(size)).flatMap({ u64($0 + 24) })
    else { return }
    for index in 0..<UInt64(count) {
      guard let at = place(offset, index, UInt64(size)), let name = u32(at), let type = u32(at + 4),
        let start = u64(at + 24), let length = u64(at + 32)
      else { return }
      guard let nameAt = place(names, UInt64(name), 1), let text = string(at: nameAt) else {
        continue
      }
      sections.append(Section(name: text, type: type, offset: start, size: length))
    }
  }

  private mutating func readDynamic() {
    guard let dynamic = segments.first(where: { $0.type == Self.dynamicSegment }) else { return }
    var strings: UInt64?
    var symbols: UInt64?
    var hash: UInt64?
    var entries: [(tag: UInt64, value: UInt64)] = []
    for index in 0..<min(dynamic.size / 16, UInt64(Self.tableLimit)) {
      guard let at = place(dynamic.offset, index, 16), let tag = u64(at), let value = u64(at + 8),
        tag != 0
      else { break }
      switch tag {
      case 5: strings = fileOffset(of: value)
      case 6: symbols = fileOffset(of: value)
      case 0x6fff_fef5: hash = fileOffset(of: value)
      case 22: hasTextRelocations = true
      case 30 where value & 4 != 0: hasTextRelocations = true
      default: entries.append((tag, value))
      }
    }
    guard let strings else { return }
    for entry in entries {
      guard [1, 15, 29].contains(entry.tag), let at = place(strings, entry.value, 1),
        let text = string(at: at)
      else { continue }
      if entry.tag == 1 { needed.append(text) } else { runPaths.append(text) }
    }
    guard let symbols else { return }
    let count =
      sections.first { $0.type == 11 }.map { $0.size / 24 } ?? hash.map(symbolCount) ?? 0
    readSymbols(at: symbols, strings: strings, count: count)
  }

  /// The number of symbols that a GNU hash table covers: one more than the greatest it names.
  private func symbolCount(hash offset: UInt64) -> UInt64 {
    guard let at = place(offset, 0, 1), let buckets = u32(at), let first = u32(at + 4),
      let bloom = u32(at + 8), let bucketsAt = place(offset, 16 + UInt64(bloom) * 8, 1),
      buckets <= Self.tableLimit
    else { return 0 }
    var greatest: UInt32 = 0
    for index in 0..<Int(buckets) {
      guard let bucket = u32(bucketsAt + 4 * index) else { return 0 }
      greatest = max(greatest, bucket)
    }
    guard greatest >= first else { return UInt64(first) }
    let chains = bucketsAt + 4 * Int(buckets)
    var index = greatest
    while let word = u32(chains + 4 * Int(index - first)), word & 1 == 0, index < UInt32.max {
      index += 1
    }
    return UInt64(index) + 1
  }

  private mutating func readSymbols(at offset: UInt64, strings: UInt64, count: UInt64) {
    for index in 1..<max(1, min(count, UInt64(Self.tableLimit))) {
      guard let at = place(offset, index, 24), let name = u32(at), at + 24 <= bytes.count else {
        return
      }
      let (bind, kind, visibility) = (bytes[at + 4] >> 4, bytes[at + 4] & 15, bytes[at + 5] & 3)
      guard u16(at + 6) != 0, bind == 1 || bind == 2 || bind == 10,
        visibility == 0 || visibility == 3,
        let nameAt = place(strings, UInt64(name), 1), let text = string(at: nameAt)
      else { continue }
      let isFunction = kind == 2 || kind == 10
      exports.append(Symbol(name: text, isUnique: bind == 10, isFunction: isFunction))
    }
  }

  // MARK: Contents

  /// The bytes of the section of this name, or `nil`.
  func section(_ name: String) -> [UInt8]? {
    guard let section = sections.first(where: { $0.name == name }), section.type != Self.noBits
    else { return nil }
    return slice(section.offset, section.size)
  }

  /// The texts of printable characters among the constants, each once, in order.
  var texts: [String] {
    var seen: Set<String> = []
    var texts: [String] = []
    for section in sections where section.name.hasPrefix(".rodata") && section.type != Self.noBits {
      for bytes in (slice(section.offset, section.size) ?? []).split(separator: 0)
      where bytes.count <= Self.nameLimit && bytes.allSatisfy({ (0x20...0x7E).contains($0) }) {
        let text = String(decoding: bytes, as: UTF8.self)
        if seen.insert(text).inserted { texts.append(text) }
      }
    }
    return texts
  }

  /// The descriptor of the first note of this owner and type, or `nil`.
  func note(owner: String, type: UInt32, section name: String) -> [UInt8]? {
    if let bytes = section(name), let found = Self.note(in: bytes, owner, type) { return found }
    for segment in segments where segment.type == Self.noteSegment {
      if let bytes = slice(segment.offset, segment.size),
        let found = Self.note(in: bytes, owner, type)
      {
        return found
      }
    }
    return nil
  }

  private static func note(in bytes: [UInt8], _ owner: String, _ type: UInt32) -> [UInt8]? {
    func padded(_ size: UInt32) -> Int { (Int(size) + 3) & ~3 }
    var at = 0
    while at + 12 <= bytes.count, let nameSize = Self.u32(bytes, at),
      let size = Self.u32(bytes, at + 4), let kind = Self.u32(bytes, at + 8)
    {
      let nameAt = at + 12
      let start = nameAt + padded(nameSize)
      guard start + Int(size) <= bytes.count else { return nil }
      let name = bytes[nameAt..<min(nameAt + Int(nameSize), bytes.count)]
      if kind == type, name.elementsEqual(Array(owner.utf8) + [0]) {
        return Array(bytes[start..<start + Int(size)])
      }
      at = start + padded(size)
    }
    return nil
  }

  // MARK: Reading within bounds

  private func fileOffset(of address: UInt64) -> UInt64? {
    for segment in segments
    where segment.type == Self.loadSegment && address >= segment.address
      && address - segment.address < segment.size
    {
      let (offset, overflow) = segment.offset.addingReportingOverflow(address - segment.address)
      return overflow ? nil : offset
    }
    return nil
  }

  /// The index of element `index` of a table, if it begins inside the file.
  private func place(_ offset: UInt64, _ index: UInt64, _ stride: UInt64) -> Int? {
    let (distance, overflow) = index.multipliedReportingOverflow(by: stride)
    let (sum, carry) = offset.addingReportingOverflow(distance)
    guard !overflow, !carry, sum < UInt64(bytes.count) else { return nil }
    return Int(sum)
  }

  private func slice(_ offset: UInt64, _ size: UInt64) -> [UInt8]? {
    let (end, overflow) = offset.addingReportingOverflow(size)
    guard !overflow, end <= UInt64(bytes.count) else { return nil }
    return Array(bytes[Int(offset)..<Int(end)])
  }

  private func string(at index: Int) -> String? {
    let rest = bytes[index..<min(index + Self.nameLimit, bytes.count)]
    guard let end = rest.firstIndex(of: 0) else { return nil }
    return String(validating: bytes[index..<end], as: UTF8.self)
  }

  private func u16(_ at: Int) -> UInt16? {
    guard at >= 0, at + 2 <= bytes.count else { return nil }
    return UInt16(bytes[at]) | UInt16(bytes[at + 1]) << 8
  }

  private func u32(_ at: Int) -> UInt32? { Self.u32(bytes, at) }

  /// Reads a little-endian word.
  static func u32(_ bytes: [UInt8], _ at: Int) -> UInt32? {
    guard at >= 0, at + 4 <= bytes.count else { return nil }
    return UInt32(bytes[at]) | UInt32(bytes[at + 1]) << 8 | UInt32(bytes[at + 2]) << 16
      | UInt32(bytes[at + 3]) << 24
  }

  private func u64(_ at: Int) -> UInt64? {
    guard let low = u32(at), let high = u32(at + 4) else { return nil }
    return UInt64(high) << 32 | UInt64(low)
  }
}
