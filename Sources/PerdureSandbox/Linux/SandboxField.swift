package import PerdureModel

/// How strongly a command is confined; the numbers are those of the launcher's messages.
package enum SandboxTier: UInt64, Sendable, CaseIterable {
  case namespaces = 1
  case landlock = 2
  case none = 3
}

/// What of a network a command has.
package enum SandboxNetwork: UInt64, Sendable {
  case off = 0
  case loopback = 1
  /// Listeners that the host serves, and nothing else.
  case allow = 2
  case host = 3
}

/// A directory or file of the host that is shown to commands.
package struct SandboxMount: Sendable {
  /// Where commands find it.
  package var inside: String
  /// Where it is, without a link on the way.
  package var outside: String
  package var isWritable: Bool
  package var isExecutable: Bool
  /// What it must still be when it is mounted; 0 and 0: anything.
  package var device: UInt64
  package var inode: UInt64

  package init(
    inside: String,
    outside: String,
    isWritable: Bool,
    isExecutable: Bool,
    device: UInt64,
    inode: UInt64
  ) {
    self.inside = inside
    self.outside = outside
    self.isWritable = isWritable
    self.isExecutable = isExecutable
    self.device = device
    self.inode = inode
  }
}

/// What is limited; 0 is "not".
package enum SandboxLimit: UInt16, Sendable {
  /// Bytes of one process.
  case data = 30
  /// Bytes of all processes together.
  case memory = 31
  case processes = 32
  /// Seconds of a processor for one process.
  case processorSeconds = 33
  /// Milliseconds until the end.
  case milliseconds = 34
  /// Bytes of one file.
  case fileSize = 35
  /// Bytes that stay free where the command can write.
  case diskFloor = 36
  case descriptors = 37
  /// Bytes of `/tmp` and its like together.
  case scratch = 38
  /// Milliseconds between the request to end and the end.
  case grace = 39
}

/// One field of a policy, or of an order to a holder.
package enum SandboxField: Sendable {
  case tier(SandboxTier)
  /// The ids of the host that stand for those inside when the host is root.
  case users(first: UInt32, count: UInt32)
  case runAs(user: UInt32, group: UInt32)
  /// The machine's programs and libraries, read only.
  case system
  case mount(SandboxMount)
  case protect(String)
  case hide(String)
  case network(SandboxNetwork)
  case listenTCP(port: UInt16)
  case listenUDP(port: UInt16)
  case variable(name: String, value: String)
  case argument(String)
  case folder(String)
  case terminal(rows: UInt16, columns: UInt16)
  case debugger
  case holder
  case cgroup(String)
  case require(SandboxPolicy.Guarantee)
  case withoutProc
  case deadline(milliseconds: UInt64)
  /// The launcher sends a descriptor of the root that commands see.
  case rootDescriptor
  case limit(SandboxLimit, UInt64)
}

extension SandboxField {
  enum Value {
    case number(UInt64)
    case text(String)
  }

  /// The field's number in messages.
  var tag: UInt16 {
    switch self {
    case .tier: 1
    case .users: 2
    case .runAs: 3
    case .system: 4
    case .mount: 5
    case .protect: 6
    case .hide: 7
    case .network: 8
    case .listenTCP, .listenUDP: 9
    case .variable: 10
    case .argument: 11
    case .folder: 12
    case .terminal: 13
    case .debugger: 14
    case .holder: 15
    case .cgroup: 16
    case .require: 17
    case .withoutProc: 18
    case .deadline: 19
    case .rootDescriptor: 20
    case .limit(let limit, _): limit.rawValue
    }
  }

  var values: [Value] {
    switch self {
    case .tier(let tier): [.number(tier.rawValue)]
    case .users(let first, let count): [.number(UInt64(first)), .number(UInt64(count))]
    case .runAs(let user, let group): [.number(UInt64(user)), .number(UInt64(group))]
    case .system, .debugger, .holder, .withoutProc: []
    case .mount(let mount): mount.values
    case .protect(let path), .hide(let path), .folder(let path), .cgroup(let path): [.text(path)]
    case .network(let network): [.number(network.rawValue)]
    case .listenTCP(let port): [.number(1), .number(UInt64(port))]
    case .listenUDP(let port): [.number(2), .number(UInt64(port))]
    case .variable(let name, let value): [.text("\(name)=\(value)")]
    case .argument(let text): [.text(text)]
    case .terminal(let rows, let columns): [.number(UInt64(rows)), .number(UInt64(columns))]
    case .require(let guarantee): [.text(guarantee.rawValue)]
    case .deadline(let milliseconds): [.number(milliseconds)]
    case .rootDescriptor: [.number(1)]
    case .limit(_, let number): [.number(number)]
    }
  }
}

extension SandboxMount {
  fileprivate var values: [SandboxField.Value] {
    [
      .number(isWritable ? 2 : 1), .number(isExecutable ? 1 : 0), .text(inside), .text(outside),
      .number(device), .number(inode),
    ]
  }
}
