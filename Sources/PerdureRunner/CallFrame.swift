import CFFI
import Glibc
import PerdurePluginHost
import PerdureValue

/// The values of one call where C looks for them, and what it leaves there.
@safe struct CallFrame {
  /// A place that the function fills in.
  @safe private enum Result {
    case scalar(JSONString, ForeignScalar, UnsafeMutableRawPointer)
    case bytes(
      JSONString,
      UnsafeMutableRawPointer,
      room: Int64,
      length: (ForeignScalar, UnsafeMutableRawPointer),
      ForeignParameter.Written,
      ForeignEncoding
    )
  }

  private let memory: CallMemory
  private let values: UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>
  private let arguments: JSONObject
  private var position = 0
  private var results: [Result] = []

  init(
    memory: CallMemory,
    values: UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>,
    arguments: JSONObject
  ) {
    self.memory = memory
    unsafe self.values = values
    self.arguments = arguments
  }

  /// Whether what is returned only says how much was written.
  private(set) var usesReturnedLength = false

  /// Places the value of a parameter.
  mutating func add(_ parameter: ForeignParameter) throws(ForeignFailure) {
    switch parameter {
    case .scalar(let scalar, let source):
      try unsafe scalar.write(value(source), to: next(8), name(source))
    case .null: unsafe put(nil)
    case .text(let source):
      let bytes = try text(source)
      guard !bytes.contains(0) else {
        throw ForeignFailure("\(name(source)) has a zero inside, which would end it")
      }
      unsafe put(memory.take(bytes))
    case .bytesIn(let source, let length, let encoding):
      var bytes = try text(source)
      if encoding == .base64 {
        guard let decoded = Base64.decodeExactly(String(decoding: bytes, as: UTF8.self)) else {
          throw ForeignFailure("\(name(source)) is not base64")
        }
        bytes = decoded
      }
      unsafe put(memory.take(bytes))
      try unsafe length.write(.int(bytes.count), to: next(8), "the length of \(name(source))")
    case .bytesOut(let name, let room, let length, let written, let encoding):
      try add(buffer: JSONString(name), room, length, written, encoding)
    case .scalarOut(let name, let scalar):
      let place = unsafe memory.take(8)
      unsafe put(place)
      unsafe results.append(.scalar(JSONString(name), scalar, place))
    case .structure(let members, let source): try add(members, source)
    }
  }

  private mutating func add(
    buffer name: JSONString,
    _ room: ForeignSource,
    _ length: ForeignScalar,
    _ written: ForeignParameter.Written,
    _ encoding: ForeignEncoding
  ) throws(ForeignFailure) {
    guard let size = value(room).int, (1...ForeignParameter.roomLimit).contains(size) else {
      throw ForeignFailure(
        "\(self.name(room)) is not an integer from 1 to \(ForeignParameter.roomLimit)"
      )
    }
    // A zero stays behind the room, so that a text ends in any case.
    let buffer = unsafe memory.take(Int(size) + 1)
    unsafe put(buffer)
    let place: UnsafeMutableRawPointer
    if written == .pointer {
      unsafe place = memory.take(8)
      unsafe put(place)
    } else {
      unsafe place = next(8)
    }
    try unsafe length.write(.int(size), to: place, "the room for \(name)")
    if written == .result { usesReturnedLength = true }
    unsafe results.append(
      .bytes(name, buffer, room: size, length: (length, place), written, encoding)
    )
  }

  private mutating func add(
    _ members: [ForeignMember],
    _ source: ForeignSource
  ) throws(ForeignFailure) {
    let object = value(source)
    let list = unsafe memory.takePointers(members.count, to: ffi_type.self)
    for (index, member) in members.enumerated() { unsafe list[index] = member.type.type }
    let type = unsafe memory.take(MemoryLayout<ffi_type>.size)
      .bindMemory(to: ffi_type.self, capacity: 1)
    unsafe perdure_ffi_structure(type, list)
    let offsets = unsafe Self.offsets(type, members.count)
    let place = unsafe next(Int(clamping: type.pointee.size))
    for (member, offset) in zip(members, offsets) {
      let path = "\(name(source)).\(member.name)"
      guard let value = object[JSONString(member.name)] else {
        throw ForeignFailure("\(path) is missing")
      }
      try unsafe member.type.write(value, to: place + offset, path)
    }
  }

  /// Where the members of a struct are.
  static func offsets(_ type: UnsafeMutablePointer<ffi_type>?, _ count: Int) -> [Int] {
    var offsets = [Int](repeating: 0, count: count)
    let status = unsafe offsets.withUnsafeMutableBytes { bytes in
      unsafe perdure_ffi_offsets(type, bytes.baseAddress?.assumingMemoryBound(to: Int.self))
    }
    return status == 0 ? offsets : []
  }

  // MARK: Places

  /// Gives room for the next value itself.
  private mutating func next(_ bytes: Int) -> UnsafeMutableRawPointer {
    let place = unsafe memory.take(max(bytes, 8))
    unsafe values[position] = place.assumingMemoryBound(to: UInt8.self)
    position += 1
    return unsafe place
  }

  /// Makes the next value an address.
  private mutating func put(_ address: UnsafeMutableRawPointer?) {
    unsafe next(8).storeBytes(of: address, as: UnsafeMutableRawPointer?.self)
  }

  private func value(_ source: ForeignSource) -> JSON {
    switch source {
    case .argument(let name): arguments[JSONString(name)] ?? .null
    case .constant(let value): value
    }
  }

  private func name(_ source: ForeignSource) -> String {
    switch source {
    case .argument(let name): name
    case .constant: "a constant of the description"
    }
  }

  private func text(_ source: ForeignSource) throws(ForeignFailure) -> [UInt8] {
    guard let text = value(source).string?.unicode else {
      throw ForeignFailure("\(name(source)) is not a text")
    }
    return Array(text.utf8)
  }

  // MARK: Results

  /// What the function left, by name.
  func results(
    returned: Int64?
  ) throws(ForeignFailure) -> [(JSONString, JSON)] {
    var values: [(JSONString, JSON)] = []
    for result in results {
      switch result {
      case .scalar(let name, let scalar, let place):
        values.append((name, try unsafe scalar.read(place, name.string)))
      case .bytes(let name, let buffer, let room, let length, let written, let encoding):
        let count: Int64 =
          switch written {
          case .pointer: unsafe length.0.integer(at: length.1)
          case .result: returned ?? -1
          case .zero: unsafe Int64(strlen(buffer.assumingMemoryBound(to: CChar.self)))
          }
        guard (0...room).contains(count) else {
          throw ForeignFailure("the function says that it wrote \(count) bytes into \(room)")
        }
        let bytes = unsafe Array(UnsafeRawBufferPointer(start: buffer, count: Int(count)))
        values.append((name, try Self.json(bytes, encoding, name)))
      }
    }
    return values
  }

  private static func json(
    _ bytes: [UInt8],
    _ encoding: ForeignEncoding,
    _ name: JSONString
  ) throws(ForeignFailure) -> JSON {
    if encoding == .base64 { return .string(Base64.encode(bytes)) }
    guard let text = String(validating: bytes, as: UTF8.self) else {
      throw ForeignFailure("\(name) is no UTF-8; let the description say \"encoding\": \"base64\"")
    }
    return .string(text)
  }
}
