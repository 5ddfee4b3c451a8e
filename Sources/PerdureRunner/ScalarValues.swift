import CFFI
import PerdurePluginHost
import PerdureValue

extension ForeignScalar {
  /// The type as libffi names it.
  var type: UnsafeMutablePointer<ffi_type>? {
    let kind: Character = isFloating ? "f" : isSigned ? "i" : "u"
    return unsafe perdure_ffi_type(CChar(kind.asciiValue ?? 0), Int32(bytes))
  }

  /// Writes a value of JSON where C looks for it; throws if it does not fit.
  func write(
    _ value: JSON,
    to place: UnsafeMutableRawPointer,
    _ name: String
  ) throws(ForeignFailure) {
    if isFloating {
      guard let number = value.double else { throw Self.misfit(name, "a number") }
      guard self == .f32 else { return unsafe place.storeBytes(of: number, as: Double.self) }
      let narrow = Float(number)
      guard narrow.isFinite else { throw Self.misfit(name, "a number of 32 bits") }
      return unsafe place.storeBytes(of: narrow, as: Float.self)
    }
    switch self {
    case .i8: unsafe place.storeBytes(of: try integer(value, name) as Int8, as: Int8.self)
    case .i16: unsafe place.storeBytes(of: try integer(value, name) as Int16, as: Int16.self)
    case .i32: unsafe place.storeBytes(of: try integer(value, name) as Int32, as: Int32.self)
    case .i64: unsafe place.storeBytes(of: try integer(value, name) as Int64, as: Int64.self)
    case .u8: unsafe place.storeBytes(of: try integer(value, name) as UInt8, as: UInt8.self)
    case .u16: unsafe place.storeBytes(of: try integer(value, name) as UInt16, as: UInt16.self)
    case .u32: unsafe place.storeBytes(of: try integer(value, name) as UInt32, as: UInt32.self)
    case .u64, .f32, .f64:
      unsafe place.storeBytes(of: try integer(value, name) as UInt64, as: UInt64.self)
    }
  }

  private func integer<Number: FixedWidthInteger>(
    _ value: JSON,
    _ name: String
  ) throws(ForeignFailure) -> Number {
    let number: Number? =
      switch value {
      case .bigInteger(let digits): Number(digits)
      default: value.int.flatMap { Number(exactly: $0) }
      }
    if let number { return number }
    throw Self.misfit(name, "an integer from \(Number.min) to \(Number.max)")
  }

  private static func misfit(_ name: String, _ what: String) -> ForeignFailure {
    ForeignFailure("\(name) is not \(what)")
  }

  /// Reads what C left; what JSON has no number for is thrown.
  func read(
    _ place: UnsafeMutableRawPointer,
    _ name: String
  ) throws(ForeignFailure) -> JSON {
    switch self {
    case .i8: return unsafe .int(Int64(place.load(as: Int8.self)))
    case .i16: return unsafe .int(Int64(place.load(as: Int16.self)))
    case .i32: return unsafe .int(Int64(place.load(as: Int32.self)))
    case .i64: return unsafe .int(place.load(as: Int64.self))
    case .u8: return unsafe .int(Int64(place.load(as: UInt8.self)))
    case .u16: return unsafe .int(Int64(place.load(as: UInt16.self)))
    case .u32: return unsafe .int(Int64(place.load(as: UInt32.self)))
    case .u64:
      let number = unsafe place.load(as: UInt64.self)
      return Int64(exactly: number).map { .int($0) } ?? .bigInteger(String(number))
    case .f32, .f64:
      let number =
        unsafe self == .f32 ? Double(place.load(as: Float.self)) : place.load(as: Double.self)
      guard number.isFinite else {
        throw ForeignFailure("\(name) is \(number.isNaN ? "not a number" : "infinite")")
      }
      return .double(number)
    }
  }

  /// The integer that C left.
  func integer(at place: UnsafeMutableRawPointer) -> Int64 {
    unsafe (try? read(place, ""))?.int ?? (isSigned ? .min : .max)
  }
}
