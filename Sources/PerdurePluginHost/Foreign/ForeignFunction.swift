package import PerdureValue

/// A function of a shared library that a manifest describes as a tool.
package struct ForeignFunction: Sendable {
  /// The library, as the dynamic loader knows it.
  package var library: String
  package var symbol: String
  package var parameters: [ForeignParameter]
  package var returns: ForeignReturn

  /// How many parameters it has in C.
  package var count: Int { parameters.reduce(0) { $0 + $1.count } }
  /// How many parameters a description may have in C.
  package static let limit = 32
}

/// A number of C.
package enum ForeignScalar: String, CaseIterable, Sendable {
  case i8, i16, i32, i64, u8, u16, u32, u64, f32, f64

  package var isFloating: Bool { self == .f32 || self == .f64 }
  package var isSigned: Bool { rawValue.hasPrefix("i") }
  package var bytes: Int {
    switch self {
    case .i8, .u8: 1
    case .i16, .u16: 2
    case .i32, .u32, .f32: 4
    case .i64, .u64, .f64: 8
    }
  }
}

/// Where the value of a parameter comes from.
package enum ForeignSource: Sendable {
  /// An argument of the tool.
  case argument(String)
  case constant(JSON)
}

/// How bytes stand in JSON.
package enum ForeignEncoding: String, CaseIterable, Sendable {
  /// As a text, whose UTF-8 they are.
  case text
  case base64
}

/// One member of a struct.
package struct ForeignMember: Sendable {
  package var name: String
  package var type: ForeignScalar
}

/// One value that the tool gives to the function, or that the function fills in.
package enum ForeignParameter: Sendable {
  /// How a function says how many bytes it has written.
  package enum Written: String, CaseIterable, Sendable {
    /// The length is passed by its address: the room before, the bytes behind.
    case pointer
    /// It returns the number.
    case result = "return"
    /// It ends the text with a zero.
    case zero
  }

  case scalar(ForeignScalar, ForeignSource)
  case null
  /// A text that a zero ends.
  case text(ForeignSource)
  /// An address and a length.
  case bytesIn(ForeignSource, length: ForeignScalar, ForeignEncoding)
  /// The address of a buffer, and how large it is.
  case bytesOut(
    name: String,
    room: ForeignSource,
    length: ForeignScalar,
    Written,
    ForeignEncoding
  )
  /// The address of a number that the function sets.
  case scalarOut(name: String, ForeignScalar)
  case structure([ForeignMember], ForeignSource)

  /// How many parameters it is in C.
  package var count: Int {
    switch self {
    case .bytesIn, .bytesOut: 2
    case .scalar, .null, .text, .scalarOut, .structure: 1
    }
  }

  /// The most bytes that a function can be given room for.
  package static let roomLimit: Int64 = 16 << 20
}

/// What a function returns.
package struct ForeignReturn: Sendable {
  package enum Kind: Sendable {
    case nothing
    case scalar(ForeignScalar)
    /// A text that a zero ends; the function `free` of the same library takes it back.
    case text(free: String?)
    case structure([ForeignMember])
  }

  package var kind: Kind
  /// The name of the value among several.
  package var name: String
  /// The numbers that mean that all went well, where others fail the call; absent: it is a value.
  package var ok: [Int64]?
  /// What other numbers mean.
  package var errors: [Int64: String]
}
