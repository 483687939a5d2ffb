// Every text that the page shows, in English and Chinese; reasons.js has those of steps and
// reasons. A part in braces is replaced.

const STRINGS = {
  title: ["Check an answer", "核验回答"],
  lead: [
    "Find out for yourself whether an answer from a Windhover appliance is what it claims to be.",
    "亲自查明：Windhover 设备给出的回答，是否真如其所称。",
  ],
  offline: [
    "Works without a network. The page is forbidden to open a connection: your files stay here.",
    "无需网络。本页被禁止建立任何连接：您的文件不会离开本机。",
  ],
  served: [
    "You loaded this page from a server. An auditor uses his own copy, saved as a file: whoever " +
      "serves the page decides what it says.",
    "本页来自服务器。审计者应使用自己保存的文件副本：提供页面的一方可以决定页面显示什么。",
  ],
  noScript: [
    "This page computes everything itself and needs JavaScript.",
    "本页的全部计算均在本机完成，需要启用 JavaScript。",
  ],
  language: ["Language", "语言"],
  skip: ["Skip to the result", "跳到结果"],

  filesTitle: ["Two files", "两个文件"],
  bundleTitle: ["The evidence", "证据包"],
  bundleHelp: [
    "The .bundle file that came with the answer.",
    "随回答一同给出的 .bundle 文件。",
  ],
  trustTitle: ["Whom you trust", "信任文件"],
  trustHelp: [
    "Your trust.toml: the keys and logs that you rely on. Get it from somebody you trust, never " +
      "from the sender of the answer.",
    "您的 trust.toml：您所信赖的密钥与日志。请从可信之人处取得，切勿取自回答的发送方。",
  ],
  drop: ["Drop the file here or choose it", "将文件拖到此处，或点击选择"],
  chosen: ["{name} · {size} bytes", "{name} · {size} 字节"],
  remove: ["Remove", "移除"],
  tooLong: [
    "{name} is longer than the {most} bytes allowed here. It was not read.",
    "{name} 超过此处允许的 {most} 字节，未予读取。",
  ],
  unreadable: ["{name} could not be read.", "无法读取 {name}。"],
  unknownFile: [
    "What {name} is cannot be told from its name. Drop it on the field it belongs to.",
    "无法从名称判断 {name} 是什么文件，请拖到对应的栏位。",
  ],
  oneOnly: [
    "This page checks one answer at a time: {name} was left aside. A whole folder: python -m verifier.",
    "本页一次只核验一个回答：{name} 未被使用。整个文件夹请用 python -m verifier。",
  ],
  sample: [
    "The result appears here as soon as both files are there.",
    "两个文件就绪后，结果会立即显示在这里。",
  ],
  working: ["Checking …", "正在核验……"],

  knownTitle: ["What you know yourself", "您自己掌握的信息"],
  knownHint: ["optional, and makes the result stronger", "可选；填写后结论更有力"],
  request: ["The request you sent", "您发出的请求"],
  requestHelp: [
    "The body of your request, byte for byte as it was sent.",
    "请求正文，须与发出时逐字节一致。",
  ],
  response: ["The answer you received", "您收到的回答"],
  responseHelp: [
    "A saved response: JSON, event stream or transcript.",
    "保存的响应：JSON、事件流或转写记录。",
  ],
  prefix: ["It was cut off: check only its beginning", "回答被中断：仅核对开头部分"],
  nonce: ["The nonce you sent", "您发送的随机数（nonce）"],
  nonceHelp: ["32 to 128 hexadecimal digits", "32 至 128 个十六进制数字"],
  model: ["The model's digest", "模型摘要"],
  digestHelp: ["64 hexadecimal digits", "64 个十六进制数字"],
  signer: ["The signer's key id", "签名者密钥标识"],
  after: ["Began no earlier than", "开始时间不早于"],
  before: ["Ended no later than", "结束时间不晚于"],
  at: ["Time of this check", "核验时间"],
  timeHelp: ["UTC, like 2026-03-01T09:30:00Z", "UTC，例如 2026-03-01T09:30:00Z"],
  atHelp: ["Empty: the clock of this computer", "留空：使用本机时钟"],
  head: ["A head of the log you hold", "您持有的日志头"],
  headHelp: ["SIZE:ROOT, or a checkpoint file below", "SIZE:ROOT，或在下方选择检查点文件"],
  headFile: ["Checkpoint file", "检查点文件"],
  software: ["A manifest of the software", "软件清单"],
  softwareHelp: [
    "Signed by a key that your trust file has for software. It names the release whose digest the " +
      "appliance gives; the result stays the same.",
    "由您信任文件中的软件密钥签名。它给出设备所报摘要对应的发布版本；结论不变。",
  ],
  need: ["What you need shown", "您需要证实的部分"],
  needHelp: [
    "What is not ticked is looked at too, and a wrong thing there is still wrong; only what is " +
      "missing does not count.",
    "未勾选的部分同样会检查，发现错误仍算错误；只是缺失不计入结论。",
  ],

  resultTitle: ["Result", "结果"],
  verdictPASS: ["Passed", "通过"],
  verdictFAIL: ["Failed", "不通过"],
  verdictINCOMPLETE: ["Incomplete", "不完整"],
  verdictNone: ["No result", "没有结论"],
  meaningPASS: [
    "Everything you asked for was checked and holds. What a check like this cannot show is " +
      "listed below.",
    "您要求的各项均已核验且成立。此类核验无法证明的事项列于下文。",
  ],
  meaningFAIL: [
    "Something was checked and is not so. Do not rely on this answer.",
    "有一项经核验不成立。请勿依赖该回答。",
  ],
  meaningINCOMPLETE: [
    "Nothing was found to be wrong, but something you asked for could not be checked.",
    "未发现错误，但您要求的某项无法核验。",
  ],
  meaningNone: [
    "What you gave cannot be used. Nothing was decided about the answer.",
    "所给输入无法使用，未对该回答作出任何判断。",
  ],
  why: ["Why", "原因"],
  also: ["Also", "此外"],
  whyPASS: [
    "All checks of the parts that you asked for have passed.",
    "所需部分的全部检查均已通过。",
  ],
  code: ["Code", "代码"],
  fieldWrong: ["This input cannot be used: {field}.", "此输入无法使用：{field}。"],
  print: ["Print this result", "打印结果"],
  checkedAt: ["Checked for the time {time}", "按此时间核验：{time}"],

  glance: ["At a glance", "概要"],
  glanceKey: ["Signed by", "签名者"],
  glanceKeyNamed: ["“{name}” of your trust file", "您信任文件中的“{name}”"],
  glanceKeyUnknown: ["a key that your trust file does not list", "信任文件中没有的密钥"],
  glanceModel: ["Model", "模型"],
  glanceRelease: ["{line}, release {release}", "{line}，第 {release} 版"],
  glanceUnsigned: ["no signed release", "没有签名的发布"],
  glancePlace: ["Place in the log", "日志中的位置"],
  glanceEntry: ["number {sequence}, counted from 0", "编号 {sequence}（从 0 起）"],
  glanceOf: [
    "number {sequence}, counted from 0, of {size} entries",
    "编号 {sequence}（从 0 起），共 {size} 条",
  ],
  glanceTokens: ["Length", "长度"],
  glanceCounts: ["{prompt} tokens in, {output} tokens out", "输入 {prompt} 个词元，输出 {output} 个词元"],
  glanceWitness: ["Also signed by", "见证者"],
  glanceNoWitness: ["no witness of your trust file", "无（信任文件中的见证者均未签名）"],
  glanceTrust: ["Your trust file (digest)", "您信任文件的摘要"],
  glanceUnchecked: [
    "The signature did not hold or could not be checked: anybody may have written this.",
    "签名不成立或无法核验：以下内容可能出自任何人。",
  ],

  passed: ["holds", "成立"],
  failed: ["wrong", "不成立"],
  open: ["could not be checked", "无法核验"],
  notMade: ["not reached", "未进行"],
  idle: ["nothing to check", "无需核验"],
  stepNumber: ["Check {number}", "第 {number} 项"],
  count: ["{passed} of {all} hold", "{all} 项中 {passed} 项成立"],
  notNeeded: ["not asked for", "未要求"],
  covers: ["What is checked", "核验内容"],
  coversNot: ["What it cannot show", "无法说明"],

  A0: ["Statement and signature", "声明与签名"],
  A0means: [
    "The appliance stated something about this answer, and a key that you trust signed it.",
    "设备就该回答作出声明，并由您信任的密钥签名。",
  ],
  A1: ["The log", "日志"],
  A1means: [
    "The statement has its fixed place in a log that only grows, so it cannot be taken back quietly.",
    "声明在只增不减的日志中占有固定位置，无法悄然撤回。",
  ],
  A2: ["Request and answer", "请求与回答"],
  A2means: [
    "The texts in your hands are the ones that the statement speaks of.",
    "您手中的文本正是声明所指的文本。",
  ],
  A3: ["The model", "模型"],
  A3means: [
    "The model named is a release that the suppliers you trust signed, and it was not withdrawn.",
    "所述模型是您信任的供应方签名的发布版本，且未被撤回。",
  ],

  texts: ["The texts", "文本内容"],
  textsMean: [
    "Opened with their salts and equal to what the statement committed to.",
    "已用盐值打开，与声明中的承诺一致。",
  ],
  textRequest: ["Request", "请求"],
  textAnswer: ["Answer", "回答"],
  textChoice: ["Answer {choice}, {kind}", "回答 {choice}，{kind}"],
  kind1: ["text", "正文"],
  kind2: ["refusal", "拒答"],
  kind3: ["name of a tool", "工具名称"],
  kind4: ["arguments of a tool", "工具参数"],
  kind5: ["{size} bytes of numbers", "{size} 字节数值"],
  kind6: ["how it ended", "结束方式"],
  letters: ["Show letters of every script", "显示所有文字的字母"],
  lettersHelp: [
    "Signs outside plain ASCII are shown as \\u{…}, because many look alike and some are invisible. " +
      "With letters shown, invisible signs stay escaped.",
    "普通 ASCII 以外的字符显示为 \\u{…}，因为许多字符形似、有些不可见。显示字母时，不可见字符仍以转义形式显示。",
  ],
  shortened: ["… {left} further bytes", "……另有 {left} 字节"],

  says: ["The appliance says", "设备自述"],
  saysMeans: [
    "Signed, but nobody has checked it. It never makes a result better.",
    "已签名，但无人核实，也不会使结论更好。",
  ],
  saysForged: [
    "Said in its name: the signature did not hold or could not be checked.",
    "以其名义所述：签名不成立或无法核验。",
  ],
  sayIssuer: ["Name", "名称"],
  sayOutcome: ["Outcome", "处理结果"],
  sayFinish: ["How it ended", "结束方式"],
  sayStarted: ["Began", "开始时间"],
  sayEnded: ["Ended", "结束时间"],
  saySoftware: ["Software digest", "软件摘要"],
  sayRelease: ["Software release", "软件发布版本"],
  sayReleaseOf: ["{release}, signed by “{name}”: {said}", "{release}，由“{name}”签名：{said}"],
  sayNumerics: ["Arithmetic", "运算规范"],
  sayKernel: ["Kernel path", "计算路径"],
  sayResidency: ["Weights in memory", "权重驻留方式"],
  sayWriteXor: ["Write-xor-execute", "写与执行互斥"],
  sayMode: ["Mode", "模式"],
  sayLoad: ["Weights when loaded", "权重加载时"],
  sayPrincipal: ["Principal", "主体标识"],
  saySeed: ["Seed", "种子"],
  saySeedSource: ["The seed came from", "种子来源"],
  saySteerable: [
    "the appliance itself: steerable, it could have drawn again",
    "设备自行产生：可被操纵，设备可能重新抽取过",
  ],
  saySeedRequest: ["the request", "请求"],
  saySeedNonce: ["the nonce of the request", "请求的随机数"],
  sayModel: ["Model digest", "模型摘要"],
  sayTrust: ["Its own trust file (digest)", "设备信任文件的摘要"],
  sayRevocations: ["Its list of revocations, number", "设备撤销列表的序号"],
  saySigner: ["Key id of the signer", "签名者密钥标识"],
  sayLog: ["Log", "日志标识"],
  sayParameters: ["Parameters", "生成参数"],
  sayNonce: ["Nonce", "随机数"],
  sayNone: ["none", "无"],

  notChecked: ["Not checked here", "此处未核验"],
  notChecked1: [
    "That the answer follows from the request under this model. Whoever holds the weights can " +
      "recompute it: windhover audit.",
    "该回答确由此模型根据请求得出。持有权重者可用 windhover audit 重新计算。",
  ],
  notCheckedNeed: ["Not asked for: {name}.", "未要求：{name}。"],
  notCheckedNonce: [
    "Whether the answer is fresh: you gave no nonce.",
    "回答是否为新生成：您未提供随机数。",
  ],
  notCheckedTexts: [
    "Whether it is the answer that you received: you gave neither request nor response.",
    "是否为您收到的那个回答：您未提供请求和响应。",
  ],
  notCheckedHead: [
    "Whether the log was rolled back: you gave no head of the log that you hold.",
    "日志是否被回退：您未提供所持有的日志头。",
  ],
  never: ["What no check like this can show", "此类核验永远无法证明的事"],
  never1: ["That the client received the answer.", "客户端确实收到了该回答。"],
  never2: [
    "That there was no other answer to the request outside the log.",
    "日志之外没有对该请求的其他回答。",
  ],
  never3: ["That the model is good.", "模型是好的。"],
  never4: ["That no key was stolen.", "没有密钥被盗。"],
  never5: [
    "That the software is the one that is named, unless what started the machine is verified, too.",
    "运行的软件确为所声明的软件，除非机器的启动过程也经过验证。",
  ],
  never6: [
    "That the log and its anchor were not rolled back together, unless somebody else holds a " +
      "later head.",
    "日志与其锚点没有被一同回退，除非另有人持有更新的日志头。",
  ],

  pageTitle: ["Is this page genuine?", "本页是真的吗？"],
  pageMeans: [
    "A forged page can say anything. Drop the file of this page here to see its SM3 digest, compute " +
      "it once more with another program, and compare both with the digest that was published and signed.",
    "伪造的页面可以随意显示。请将本页文件拖到此处查看其 SM3 摘要，再用另一程序计算一次，并与公布且签名的摘要比较。",
  ],
  pageCommand: ["With OpenSSL", "使用 OpenSSL"],
  pageFile: ["The file of this page (verify.html)", "本页文件（verify.html）"],
  pageDigest: ["SM3 digest", "SM3 摘要"],
  pageExpected: ["Published digest", "公布的摘要"],
  pageSame: ["The digests are equal.", "两个摘要一致。"],
  pageDiffers: ["The digests differ: do not use this page.", "两个摘要不同：请勿使用本页。"],
  pageNoDigest: ["A digest is 64 hexadecimal digits.", "摘要为 64 个十六进制数字。"],
  footer: [
    "Steps and codes are those of verifier/SPEC.md. SM3, SM2, CBOR and trees are computed by this page.",
    "步骤与代码依据 verifier/SPEC.md。SM3、SM2、CBOR 与哈希树均由本页计算。",
  ],
};

let language = 0;

/** The text of a key in the language chosen, with its parts put in. */
function text(key, parts = {}) {
  let found = STRINGS[key][language];
  for (const [name, part] of Object.entries(parts)) found = found.replace(`{${name}}`, () => part);
  return found;
}
