/// What a frame between host and runner says.
enum FrameType: UInt16, Sendable, CaseIterable {
  case hello = 1
  case activate = 2
  case activated = 3
  case deactivate = 4
  case deactivated = 5
  case destroy = 6
  case start = 8
  case accept = 9
  case emit = 10
  case complete = 11
  case credit = 12
  case cancel = 13
  case invoke = 16
  case invokeCancel = 17
  case done = 18
  case ping = 20
  case pong = 21
  /// A promise that only the runner saw broken; may be ignored.
  case strike = 24
}

/// Why bytes are no frame.
enum FrameProblem: Error, Equatable {
  case short(Int)
  case long(Int)
  case magic
  case headerSize(Int)
  case type(Int)
  case sizes
  case limit(String)
  case notUTF8(String)
  case descriptor(String)
  case sequence(UInt32)
  case seal

  /// What follows "a frame " in a sentence.
  var phrase: String {
    switch self {
    case .short(let count): "of \(count) bytes, which is less than a header"
    case .long(let count): "of \(count) bytes, which is more than fits"
    case .magic: "that does not begin as one"
    case .headerSize(let size): "with a header of \(size) bytes"
    case .type(let type): "of the unknown type \(type)"
    case .sizes: "whose sizes do not add up"
    case .limit(let what): "with \(what) that is too large"
    case .notUTF8(let what): "with \(what) that is no UTF-8"
    case .descriptor(let what): "with \(what)"
    case .sequence(let number): "numbered \(number), which is not the next number"
    case .seal: "whose memory is not sealed or has another size"
    }
  }
}

/// One message between host and runner, without a payload that travels in memory of its own.
struct Frame: Sendable, Equatable {
  /// Greatest datagram.
  static let datagramLimit = 65_536
  static let headerSize = 64
  static let nameLimit = 512
  static let mediaTypeLimit = 128
  static let errorLimit = 16 << 10
  /// Greatest payload of any frame.
  static let payloadLimit = 256 << 20
  static let inMemory: UInt32 = 1
  static let ignorable: UInt32 = 2
  static let absent: UInt32 = 4
  private static let magic: [UInt8] = [0x50, 0x44, 0x52, 0x31]

  var type: FrameType
  var flags: UInt32 = 0
  var status: Int32 = 0
  var call: UInt64 = 0
  var request: UInt64 = 0
  var value: UInt64 = 0
  var sequence: UInt32 = 0
  var name = ""
  var mediaType = ""
  /// JSON, or nothing.
  var error: [UInt8] = []
  /// Absent is something else than empty.
  var payload: [UInt8]?

  init(
    _ type: FrameType,
    status: Int32 = 0,
    call: UInt64 = 0,
    request: UInt64 = 0,
    value: UInt64 = 0,
    name: String = "",
    mediaType: String = "",
    error: [UInt8] = [],
    payload: [UInt8]? = nil
  ) {
    self.type = type
    self.status = status
    self.call = call
    self.request = request
    self.value = value
    self.name = name
    self.mediaType = mediaType
    self.error = error
    self.payload = payload
  }

  // MARK: Writing

  /// Whether all of it fits in one datagram.
  var fits: Bool {
    Self.headerSize + name.utf8.count + mediaType.utf8.count + error.count
      + (payload?.count ?? 0) <= Self.datagramLimit
  }

  /// Gives the bytes of the datagram; a payload that does not fit is left out.
  func encoded(sequence: UInt32) -> [UInt8] {
    let isInline = fits
    var bytes: [UInt8] = []
    bytes.reserveCapacity(
      Self.headerSize + name.utf8.count + mediaType.utf8.count + error.count
        + (isInline ? payload?.count ?? 0 : 0)
    )
    func put(_ value: UInt64, _ count: Int) {
      for index in 0..<count { bytes.append(UInt8(truncatingIfNeeded: value >> (8 * index))) }
    }
    bytes += Self.magic
    put(UInt64(Self.headerSize), 2)
    put(UInt64(type.rawValue), 2)
    let marks = (isInline ? 0 : Self.inMemory) | (payload == nil ? Self.absent : 0)
    put(UInt64(flags | marks), 4)
    put(UInt64(UInt32(bitPattern: status)), 4)
    put(call, 8)
    put(request, 8)
    put(value, 8)
    put(UInt64(payload?.count ?? 0), 8)
    put(UInt64(name.utf8.count), 4)
    put(UInt64(mediaType.utf8.count), 2)
    put(0, 2)
    put(UInt64(error.count), 4)
    put(UInt64(sequence), 4)
    bytes.append(contentsOf: name.utf8)
    bytes.append(contentsOf: mediaType.utf8)
    bytes.append(contentsOf: error)
    if isInline, let payload { bytes.append(contentsOf: payload) }
    return bytes
  }

  // MARK: Reading

  /// What a datagram comes to.
  enum Read: Sendable, Equatable {
    /// A whole frame.
    case frame(Frame)
    /// A frame whose payload of this many bytes is in memory of its own.
    case outside(Frame, Int)
    /// A frame of an unknown type that may be ignored; its sequence counts.
    case ignored(UInt32)
  }

  /// Reads one datagram.
  static func read(_ bytes: [UInt8]) throws(FrameProblem) -> Read {
    guard bytes.count >= headerSize else { throw .short(bytes.count) }
    guard bytes.count <= datagramLimit else { throw .long(bytes.count) }
    guard bytes.starts(with: magic) else { throw .magic }
    func take(_ offset: Int, _ count: Int) -> UInt64 {
      var value: UInt64 = 0
      for index in (0..<count).reversed() { value = value << 8 | UInt64(bytes[offset + index]) }
      return value
    }
    guard take(4, 2) == headerSize else { throw .headerSize(Int(take(4, 2))) }
    let flags = UInt32(take(8, 4))
    let sequence = UInt32(take(60, 4))
    let lengths = try lengths(
      payload: take(40, 8),
      name: take(48, 4),
      mediaType: take(52, 2),
      reserved: take(54, 2),
      error: take(56, 4),
      flags: flags,
      of: bytes.count
    )
    guard let type = FrameType(rawValue: UInt16(take(6, 2))) else {
      if flags & ignorable != 0, flags & inMemory == 0 { return .ignored(sequence) }
      throw .type(Int(take(6, 2)))
    }
    var frame = Frame(type)
    frame.flags = flags & ~(inMemory | absent)
    frame.status = Int32(bitPattern: UInt32(take(12, 4)))
    frame.call = take(16, 8)
    frame.request = take(24, 8)
    frame.value = take(32, 8)
    frame.sequence = sequence
    var offset = headerSize
    frame.name = try text(bytes[offset..<offset + lengths.name], "a name")
    offset += lengths.name
    frame.mediaType = try text(bytes[offset..<offset + lengths.mediaType], "a media type")
    offset += lengths.mediaType
    frame.error = Array(bytes[offset..<offset + lengths.error])
    offset += lengths.error
    if flags & inMemory != 0 { return .outside(frame, lengths.payload) }
    if flags & absent == 0 { frame.payload = Array(bytes[offset...]) }
    return .frame(frame)
  }

  private struct Lengths {
    var name: Int
    var mediaType: Int
    var error: Int
    var payload: Int
  }

  // Every sum is of numbers that were bounded before.
  private static func lengths(
    payload: UInt64,
    name: UInt64,
    mediaType: UInt64,
    reserved: UInt64,
    error: UInt64,
    flags: UInt32,
    of count: Int
  ) throws(FrameProblem) -> Lengths {
    guard name <= nameLimit else { throw .limit("a name") }
    guard mediaType <= mediaTypeLimit else { throw .limit("a media type") }
    guard error <= errorLimit else { throw .limit("an error") }
    guard payload <= payloadLimit else { throw .limit("a payload") }
    let lengths = Lengths(
      name: Int(name),
      mediaType: Int(mediaType),
      error: Int(error),
      payload: Int(payload)
    )
    let isOutside = flags & inMemory != 0
    let inline = isOutside ? 0 : lengths.payload
    guard reserved == 0, flags & absent == 0 || (payload == 0 && !isOutside),
      headerSize + lengths.name + lengths.mediaType + lengths.error + inline == count
    else { throw .sizes }
    return lengths
  }

  private static func text(
    _ bytes: ArraySlice<UInt8>,
    _ what: String
  ) throws(FrameProblem)
    -> String
  {
    guard let text = String(validating: bytes, as: UTF8.self) else { throw .notUTF8(what) }
    return text
  }
}
