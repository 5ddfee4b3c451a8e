import Perdure
import PerdureModel
import PerdureValue

/// What one command asks of the process that works on a store.
struct ControlRequest: Sendable {
  /// Chosen by the one who asks; all answers carry it.
  var id: Int64
  var operation: String
  var parameters: JSONObject

  init(id: Int64, operation: String, parameters: JSONObject) {
    self.id = id
    self.operation = operation
    self.parameters = parameters
  }

  /// Reads a frame.
  init(frame: [UInt8]) throws(PerdureError) {
    guard let json = try? JSON(parsing: frame), let id = json["id"]?.int,
      let operation = json["op"]?.text
    else {
      throw PerdureError(
        .invalidRequest,
        "a control request is a JSON object with a number 'id' and a text 'op'"
      )
    }
    guard let parameters = (json["params"] ?? [:]).object else {
      throw PerdureError(.invalidRequest, "the 'params' of a control request are an object")
    }
    self.init(id: id, operation: operation, parameters: parameters)
  }

  var frame: [UInt8] {
    JSON.object(["id": .int(id), "op": .string(operation), "params": .object(parameters)]).encoded
  }
}

/// What comes back: any number of events, then a result or an error.
enum ControlAnswer: Sendable {
  case event(String, JSONObject)
  case result(JSONObject)
  case failed(PerdureError)

  /// Reads a frame.
  static func read(_ frame: [UInt8]) throws(PerdureError) -> (id: Int64?, answer: ControlAnswer) {
    guard let json = try? JSON(parsing: frame), let object = json.object else { throw garbled }
    let id = json["id"]?.int
    if let event = object["event"], let type = event["type"]?.text, var members = event.object {
      members["type"] = nil
      return (id, .event(type, members))
    }
    if let result = object["result"]?.object { return (id, .result(result)) }
    if let error = object["error"].flatMap({ PerdureError(json: $0) }) {
      return (id, .failed(error))
    }
    throw garbled
  }

  private static var garbled: PerdureError {
    PerdureError(
      "host_garbled",
      "the process that works on the store answered in a form that this version does not know",
      hint: "use the same version of perdure for both"
    )
  }

  func frame(_ id: Int64?) -> [UInt8] {
    var object: JSONObject = ["id": id.map { .int($0) } ?? .null]
    switch self {
    case .event(let type, let members):
      var event: JSONObject = ["type": .string(type)]
      for (key, value) in members { event[key] = value }
      object["event"] = .object(event)
    case .result(let members): object["result"] = .object(members)
    case .failed(let error): object["error"] = error.json
    }
    return JSON.object(object).encoded
  }
}

extension PerdureError {
  /// Reads the form that `json` has.
  init?(json: JSON) {
    guard let code = json["code"]?.text, let message = json["message"]?.text else { return nil }
    self.init(
      Code(rawValue: code),
      message,
      hint: json["hint"]?.text,
      details: json["details"],
      cause: json["cause"]?.text
    )
  }
}

extension StoreAddress {
  /// Where the process that works on this store takes requests.
  var controlPath: String? {
    switch self {
    case .memory: nil
    case .file(let path): path + ".control"
    case .folder(let path): path + "/perdure.control"
    }
  }
}
