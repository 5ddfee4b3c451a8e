/// The situations in which an operation may be asked for, by the letters of the documentation.
struct CallClasses: OptionSet, Sendable {
  let rawValue: Int
  /// T: a tool and its wraps.
  static let tool = CallClasses(rawValue: 1)
  /// K: a phase of a task.
  static let task = CallClasses(rawValue: 2)
  /// A: the abort handler of a task.
  static let abort = CallClasses(rawValue: 4)
  /// H: a hook at a task.
  static let hook = CallClasses(rawValue: 8)
  /// C: the hook that sees new conversations.
  static let created = CallClasses(rawValue: 16)
  /// S: a section and its wraps.
  static let section = CallClasses(rawValue: 32)
  /// P: a call of the plugin itself.
  static let plugin = CallClasses(rawValue: 64)
  /// N: outside any call.
  static let none = CallClasses(rawValue: 128)
  /// X: a call that computes and does nothing else.
  static let pure = CallClasses(rawValue: 256)
  /// W: the wrap of a tool or a section, which has something inside.
  static let wrap = CallClasses(rawValue: 512)

  static let all: CallClasses = [.tool, .task, .abort, .hook, .created, .section, .plugin, .none]

  private static let letters: [(CallClasses, String)] = [
    (.tool, "T"), (.task, "K"), (.abort, "A"), (.hook, "H"), (.created, "C"), (.section, "S"),
    (.plugin, "P"), (.none, "N"), (.pure, "X"), (.wrap, "W"),
  ]

  /// The letters, such as `T K A`; `all` for all of them.
  var text: String {
    let isAll = isSuperset(of: .all)
    let rest = isAll ? subtracting(.all) : self
    let names = Self.letters.filter { rest.contains($0.0) }.map(\.1)
    return ((isAll ? ["all"] : []) + names).joined(separator: " ")
  }
}

extension PluginCall {
  /// What kind of call it is: which operations it may ask for, and what it is answered with.
  enum Kind: Sendable, Equatable {
    case tool
    /// A wrap of a tool.
    case wrap
    case taskPhase
    case abort
    case hook
    case created
    case section
    case sectionWrap
    case plugin
    case pure
    /// For the benchmark, which measures the border without JSON.
    case bytes

    /// The situations that it counts as.
    var classes: CallClasses {
      switch self {
      case .tool: .tool
      case .wrap: [.tool, .wrap]
      case .taskPhase: .task
      case .abort: .abort
      case .hook: .hook
      case .created: .created
      case .section: .section
      case .sectionWrap: [.section, .wrap]
      case .plugin, .bytes: .plugin
      case .pure: .pure
      }
    }

    /// Whether it is answered with the result of a tool and may put something out before.
    var isTool: Bool { self == .tool || self == .wrap }

    /// Whether text stands for an object with that text.
    var isSection: Bool { self == .section || self == .sectionWrap }
  }
}
