#!/usr/bin/env node
import { existsSync } from 'node:fs';
import { hostname } from 'node:os';
import path from 'node:path';
import { createLogger, type Logger } from '../base/index.ts';
import { closeInheritedDescriptors } from '../host/index.ts';
import {
  ApiProgram,
  actOnVm,
  addImage,
  addUser,
  adminKubeconfig,
  askExplain,
  attachConsole,
  type Command,
  cancelMigration,
  completionScript,
  consoleGreeting,
  defaultApiPort,
  describeImage,
  documentText,
  dynamicWords,
  ensureStateDir,
  exitCodeOf,
  exitCodes,
  failureText,
  ImageStore,
  joinSshProxy,
  knownAgents,
  listImages,
  listUsers,
  listVms,
  migrateVm,
  NodeError,
  type NodeFlags,
  type NodePaths,
  nodePaths,
  openConsole,
  openScreen,
  Progress,
  pageUrl,
  paintFor,
  parseCommand,
  readNodeStatus,
  refuseClosedStateDir,
  refuseReplacing,
  removeImage,
  revokeUser,
  runClient,
  runUp,
  type SshCall,
  StandaloneNode,
  savePicture,
  scpCall,
  shells,
  sshAdvice,
  sshCall,
  statusLines,
  stopNode,
  stopwatch,
  takeDrainRequest,
  takeScreenshot,
  untilAborted,
  VncProxy,
  versionText,
  watchOutput,
} from '../standalone/index.ts';

const binDir = import.meta.dirname;
const packageDir = path.resolve(binDir, '../..');
const argv = process.argv.slice(2);
const paint = paintFor(process.stdout, process.env, argv);
const progress = progressOn(process.stdout);
const say = (line: string) => progress.line(line);

function progressOn(output: NodeJS.WriteStream): Progress {
  return new Progress({
    write: (text) => void output.write(text),
    isLive: output.isTTY === true && process.env.TERM !== 'dumb',
    columns: () => output.columns || 80,
    paint: paintFor(output, process.env, argv),
    nowMs: () => performance.now(),
  });
}

/** Terminals and npm both pass Ctrl-C on: what comes within this time is one. */
const oneCtrlCMs = 1_000;

/** Aborts on the first SIGINT or SIGTERM; calls `force` on a later one. */
function onSignals(force: () => void): AbortSignal {
  const leave = new AbortController();
  let firstMs: number | undefined;
  const onSignal = () => {
    firstMs ??= performance.now();
    if (!leave.signal.aborted) leave.abort(new Error('asked to leave'));
    else if (performance.now() - firstMs > oneCtrlCMs) force();
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, onSignal);
  return leave.signal;
}

function requireRoot(): void {
  if (process.getuid?.() === 0) return;
  throw new NodeError(
    'NO_PERMISSION',
    'pods are namespaces with mounts of their own, which only root may make: use sudo',
  );
}

/** Before the first file is read or written there. What this process and its programs make is for their user only. */
async function ownStateDir(paths: NodePaths): Promise<void> {
  process.umask(0o077);
  await ensureStateDir(paths, process.geteuid?.() ?? 0);
}

function nodeOf({ stateDir, nodeName }: Pick<NodeFlags, 'stateDir' | 'nodeName'>) {
  return { paths: nodePaths(stateDir), nodeName: nodeName ?? hostname().toLowerCase() };
}

function newNode(flags: NodeFlags, log: Logger, progress: (step: string) => void): StandaloneNode {
  const program = (name: string): [string, string] => [process.execPath, path.join(binDir, `${name}.js`)];
  return new StandaloneNode(
    {
      ...nodeOf(flags),
      nodes: flags.nodes,
      hostIp: '127.0.0.1',
      apiPort: flags.apiPort,
      webPort: flags.webPort,
      pageDir: path.join(packageDir, 'dist/web'),
      programs: {
        apiserver: [process.execPath, path.join(binDir, 'virt-node.js'), 'apiserver'],
        'virt-controller': program('virt-controller'),
        'virt-handler': program('virt-handler'),
        'virt-launcher': program('virt-launcher'),
        'container-disk': program('container-disk'),
        'virt-probe': program('virt-probe'),
        'virt-exportserver': program('virt-exportserver'),
      },
      podNetwork: flags.podNetwork,
      hostDiskDirs: flags.hostDiskDirs,
      podPrograms: podPrograms(),
      env: process.env,
      pid: process.pid,
      verbosity: flags.verbosity,
    },
    { log, progress },
  );
}

/** The launcher's, its native packages' and those of Node.js itself; the system's are in every pod. */
function podPrograms(): string[] {
  const parts = ['package.json', 'node_modules'].map((name) => path.join(packageDir, name));
  return [binDir, ...parts, process.execPath].filter((program) => existsSync(program) && !program.startsWith('/usr/'));
}

async function supervise(flags: NodeFlags, run: (node: StandaloneNode, leave: AbortSignal) => Promise<void>) {
  requireRoot();
  const paths = nodePaths(flags.stateDir);
  await ownStateDir(paths);
  const log = createLogger({
    component: 'virt-node',
    verbosity: flags.verbosity,
    file: path.join(paths.logDir, 'virt-node.log'),
  });
  const node = newNode(
    flags,
    log,
    stopwatch(say, () => performance.now()),
  );
  const leave = onSignals(() => {
    say('ending everything now');
    void node.kill().finally(() => process.exit(130));
  });
  await run(node, leave);
}

async function start(flags: NodeFlags): Promise<void> {
  const paths = nodePaths(flags.stateDir);
  await supervise(flags, async (node, leave) => {
    progress.busy('the node starts');
    await node.start();
    progress.busy(undefined);
    say(node.page);
    say(`the node is up: export KUBECONFIG=${paths.kubeconfig}`);
    await untilAborted(leave);
    const pods = (await takeDrainRequest(paths)) ? 'end' : 'keep';
    say(pods === 'end' ? 'stopping: virtual machines shut down first' : 'stopping: virtual machines stay');
    progress.busy('the node stops');
    await node.stop({ pods });
  });
}

async function up(flags: NodeFlags & { readonly once: boolean }): Promise<void> {
  await supervise(flags, async (node, leave) => {
    const script = path.relative(process.cwd(), path.join(binDir, 'virt-node.js'));
    const stateFlag = process.argv.includes('--state-dir') ? ` --state-dir ${flags.stateDir}` : '';
    const options = {
      paths: nodePaths(flags.stateDir),
      once: flags.once,
      exampleFile: path.join(packageDir, 'examples/vm.yaml'),
      guestDir: path.join(packageDir, '.cache/guest'),
      env: process.env,
      commandOf: (command: string) => `node ${script} ${command} demo${stateFlag}`,
    };
    await runUp(options, { node, say, busy: (text) => progress.busy(text) }, leave);
  });
}

async function apiserver(command: Extract<Command, { command: 'apiserver' }>): Promise<void> {
  await ownStateDir(nodePaths(command.stateDir));
  const log = createLogger({ component: 'apiserver', verbosity: command.verbosity });
  const program = new ApiProgram({ ...command, ...nodeOf(command) }, { log });
  const leave = onSignals(() => process.exit(130));
  await program.start();
  await untilAborted(leave);
  await program.stop();
}

const warn = (line: string) => void process.stderr.write(`\r\n[${line}]\r\n`);
const note = (line: string) => void process.stderr.write(`virt-node: ${line}\n`);

async function serialConsole(command: Extract<Command, { command: 'console' }>): Promise<void> {
  const { stateDir, namespace, name, access } = command;
  const leave = onSignals(() => process.exit(130));
  const { stdin: input, stdout: output } = process;
  const wish = { namespace, name, access, replay: input.isTTY === true || access === 'view' };
  const serial = await openConsole(nodePaths(stateDir), wish, leave, warn);
  const viewOnly = access === 'view';
  process.stderr.write(`${consoleGreeting({ namespace, name, viewOnly, isTerminal: input.isTTY === true })}\r\n`);
  const end = await attachConsole(serial, { input, output, report: warn }, { viewOnly, byPrompt: true }, leave);
  process.stderr.write(end === 'closed' ? '\r\nthe virtual machine closed its console\r\n' : '\r\n');
}

async function screen({ stateDir, port, access, ...vm }: Extract<Command, { command: 'vnc' }>): Promise<void> {
  const leave = onSignals(() => process.exit(130));
  const users = [process.getuid?.(), process.env.SUDO_UID].flatMap((uid) => (uid === undefined ? [] : [Number(uid)]));
  const proxy = new VncProxy(port, users, { open: await openScreen(nodePaths(stateDir), vm, access), report: say });
  const bound = await proxy.start();
  say(
    `the screen of ${vm.namespace}/${vm.name} is on vnc://127.0.0.1:${bound}, for you (by number: ${users.join(', ')}); open it with`,
  );
  say(`  vncviewer 127.0.0.1::${bound}   or   remote-viewer vnc://127.0.0.1:${bound}`);
  say('Ctrl-C ends it.');
  await untilAborted(leave);
  await proxy.stop();
}

async function screenshot({ stateDir, output, ...vm }: Extract<Command, { command: 'screenshot' }>): Promise<void> {
  const picture = await takeScreenshot(nodePaths(stateDir), vm);
  if (output === '-') process.stdout.write(picture.bytes);
  else say(`${await savePicture(picture, vm.name, output)}: ${picture.bytes.length} bytes, ${picture.mime}`);
}

async function stop({ stateDir, keepVms }: Extract<Command, { command: 'stop' }>): Promise<void> {
  const paths = nodePaths(stateDir);
  const stopLeft = async ({ nodes }: { readonly nodes: number }, pods: 'keep' | 'end') => {
    const [first] = await knownAgents(paths);
    // What of it is for nodes that take new virtual machines is not used.
    const rest = { apiPort: defaultApiPort, webPort: 0, podNetwork: 'none', hostDiskDirs: [], verbosity: 2 };
    await supervise({ stateDir, nodeName: first?.node, nodes, ...rest }, (node) => node.stopLeft({ pods }));
  };
  progress.busy(keepVms ? 'the node stops' : 'the node stops, its VMs shut down');
  const said = await stopNode(paths, keepVms ? 'keep' : 'end', { say, stopLeft });
  progress.busy(undefined);
  say(said);
}

async function status({ stateDir, output }: Extract<Command, { command: 'status' }>): Promise<void> {
  const found = await readNodeStatus(nodePaths(stateDir));
  say(output === 'table' ? statusLines(found, paint).join('\n') : documentText(output, found));
  process.exitCode = found.running ? exitCodes.done : exitCodes.notRunning;
}

async function makeUser(command: Extract<Command, { command: 'user-add' }>): Promise<void> {
  const { kubeconfig, said } = await addUser(nodePaths(command.stateDir), command, new Date());
  // A kubeconfig goes to a file, as a rule.
  process.stderr.write(`${said}\n`);
  if (kubeconfig !== undefined) process.stdout.write(kubeconfig);
}

/** The words that run this program, for a script of a shell. */
function printCompletion(shell: Extract<Command, { command: 'completion' }>['shell']): void {
  const used = path.basename(process.env.SHELL ?? '');
  const chosen = shell ?? shells.find((each) => each === used) ?? 'bash';
  say(completionScript(chosen, [process.execPath, path.join(binDir, 'virt-node.js')]));
}

async function complete(command: Extract<Command, { command: 'complete' }>): Promise<void> {
  const found = await dynamicWords(nodePaths(command.stateDir), command.wanted);
  say([...command.words, ...found].join('\n'));
}

async function migrate(command: Extract<Command, { command: 'migrate' }>): Promise<void> {
  const leave = onSignals(() => process.exit(130));
  const said = await migrateVm(nodePaths(command.stateDir), command, (line) => progress.step(line), leave);
  progress.busy(undefined);
  say(said);
}

type Of<Name extends Command['command']> = Extract<Command, { command: Name }>;

/** The OpenSSH client calls this program again, for the way to the guest. */
const ssh = { self: [process.execPath, ...process.execArgv, path.join(binDir, 'virt-node.js')], report: note };

async function logIn(command: Extract<Command, { command: 'ssh' | 'scp' }>): Promise<void> {
  const paths = nodePaths(command.stateDir);
  const leave = onSignals(() => process.exit(130));
  const call: SshCall =
    command.command === 'ssh' ? await sshCall(paths, command, ssh, leave) : await scpCall(paths, command, ssh, leave);
  const { code, said } = await runClient(call, process.stderr, leave);
  process.exitCode = code;
  const advice = code === 0 ? undefined : sshAdvice(paths, command, said);
  if (advice !== undefined) note(advice);
}

async function sshProxy(command: Extract<Command, { command: 'ssh-proxy' }>): Promise<void> {
  const { stdin: input, stdout: output } = process;
  await joinSshProxy(
    nodePaths(command.stateDir),
    command,
    { input, output },
    onSignals(() => process.exit(130)),
  );
}

function imagesOf(stateDir: string) {
  const paths = nodePaths(stateDir);
  return { paths, images: new ImageStore({ dir: paths.imagesDir }) };
}

async function putImage({ stateDir, force, ...wish }: Of<'image-add'>): Promise<void> {
  const deps = imagesOf(stateDir);
  const { images, paths } = deps;
  // Before anything is made for it.
  images.directoryOf(wish.reference);
  await ownStateDir(paths);
  if (!force) await refuseReplacing(deps, wish.reference);
  const signal = onSignals(() => process.exit(130));
  // The answer alone is on the standard output.
  const waiting = progressOn(process.stderr);
  const doing = (what: string, share?: number) => waiting.busyWith(what, share);
  await addImage(wish, { images, signal, progress: doing }).finally(() => waiting.busy(undefined));
  for (const line of await describeImage(deps, wish.reference)) say(line);
}

async function showImages({ stateDir, quiet }: Of<'images'>): Promise<void> {
  for (const line of await listImages(imagesOf(stateDir), quiet)) say(line);
}

async function showImage({ stateDir, reference }: Of<'image-info'>): Promise<void> {
  for (const line of await describeImage(imagesOf(stateDir), reference)) say(line);
}

/** Commands that go on without a reader of what they print. */
const lasting: ReadonlySet<Command['command']> = new Set(['start', 'up', 'apiserver', 'console', 'vnc']);

async function run(command: Command): Promise<void> {
  const owner = { exit: process.exit, warn: (line: string) => void process.stderr.write(`${line}\n`) };
  watchOutput(process.stdout, lasting.has(command.command) ? 'aside' : 'answer', owner);
  // What completes a line says nothing of why: without the node there are its commands and flags.
  if (command.command !== 'complete' && 'stateDir' in command && command.stateDir !== undefined)
    await refuseClosedStateDir(nodePaths(command.stateDir));
  switch (command.command) {
    case 'start':
      return start(command);
    case 'up':
      return up(command);
    case 'apiserver':
      return apiserver(command);
    case 'stop':
      return stop(command);
    case 'status':
      return status(command);
    case 'url':
      return say(await pageUrl(nodePaths(command.stateDir), command.readOnly));
    case 'list':
      return say(await listVms(nodePaths(command.stateDir), command, new Date(), paint));
    case 'users':
      return say(await listUsers(nodePaths(command.stateDir), command.output, new Date()));
    case 'kubeconfig':
      return void process.stdout.write(await adminKubeconfig(nodePaths(command.stateDir)));
    case 'user-add':
      return makeUser(command);
    case 'user-revoke':
      return say(await revokeUser(nodePaths(command.stateDir), command.user));
    case 'console':
      return serialConsole(command);
    case 'vnc':
      return screen(command);
    case 'screenshot':
      return screenshot(command);
    case 'act':
      return say(await actOnVm(nodePaths(command.stateDir), command, command.action));
    case 'migrate':
      return migrate(command);
    case 'migrate-cancel':
      return say(await cancelMigration(nodePaths(command.stateDir), command));
    case 'ssh':
    case 'scp':
      return logIn(command);
    case 'ssh-proxy':
      return sshProxy(command);
    case 'explain':
      return say(await askExplain(command, { paint }));
    case 'image-add':
      return putImage(command);
    case 'images':
      return showImages(command);
    case 'image-info':
      return showImage(command);
    case 'image-remove':
      return say(await removeImage(imagesOf(command.stateDir), command.reference, command.force));
    case 'version':
      return say(await versionText(packageDir, process.version));
    case 'completion':
      return printCompletion(command.shell);
    case 'complete':
      return complete(command);
    case 'print':
      return say(command.text);
  }
}

watchOutput(process.stderr, 'aside', { exit: process.exit, warn: () => undefined });
try {
  closeInheritedDescriptors();
  await run(parseCommand(argv));
} catch (error) {
  progress.busy(undefined);
  const shown = paintFor(process.stderr, process.env, argv)('virt-node:', 'bad');
  process.stderr.write(`${shown} ${failureText(error)}\n`);
  process.exitCode = exitCodeOf(error);
} finally {
  progress.busy(undefined);
}
