import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { resources, type VirtualMachine } from '../../api/index.ts';
import { errorCode, errorMessage, sleep } from '../../base/index.ts';
import { getIfThere, writeIfThere } from '../../kube/index.ts';
import { NodeError } from '../errors.ts';
import type { NodePaths } from '../paths.ts';
import { hostLinkOf } from '../pod-network/index.ts';
import { ImageStore } from '../pod-runner/index.ts';
import { isAlive, type ProcessIdentity } from '../process-identity.ts';
import type { StandaloneNode } from '../supervisor/index.ts';
import { installDemoImage } from './demo-image.ts';
import { diagnose } from './diagnose.ts';
import { findLeftovers, podNamespaceOf } from './leftovers.ts';
import { untilLogin } from './serial-login.ts';
import { openConsole } from './vm-agent.ts';
import { untilVmiGone, untilVmiRuns } from './watch-vmi.ts';

export interface UpOptions {
  readonly paths: NodePaths;
  readonly once: boolean;
  /** Manifest of the example VM `demo`. */
  readonly exampleFile: string;
  readonly guestDir: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** How a person calls a command about the VM `demo`, for the hints at the end. */
  readonly commandOf: (command: 'ssh' | 'console') => string;
}

export interface UpDeps {
  readonly node: StandaloneNode;
  /** Whole lines for a person. */
  readonly say: (line: string) => void;
  /** What is under way, on a terminal; undefined: nothing. */
  readonly busy?: (text: string | undefined) => void;
}

const vm = { namespace: 'default', name: 'demo' };
const startTimeoutMs = 120_000;
const loginTimeoutMs = 60_000;
const deleteTimeoutMs = 60_000;
const haltTimeoutMs = 5_000;

/** Lines with the seconds since the start: `  1.2 s  Kubernetes API`. */
export function stopwatch(say: (line: string) => void, nowMs: () => number): (step: string) => void {
  const startMs = nowMs();
  return (step) => say(`${((nowMs() - startMs) / 1000).toFixed(1).padStart(6)} s  ${step}`);
}

/**
 * The whole of `npm run up` after set-up. `leave` ends it: with `once` only early. Rejects with what went wrong, after having
 * said what helps to see why; the node is stopped in any case.
 */
export async function runUp(options: UpOptions, deps: UpDeps, leave: AbortSignal): Promise<void> {
  const { paths } = options;
  const { node, say, busy = () => undefined } = deps;
  const step = stopwatch(say, () => performance.now());
  await installDemoImage(new ImageStore({ dir: paths.imagesDir }), options.guestDir);
  busy('the node starts');
  await node.start();
  let failure: unknown;
  try {
    busy(`${vm.name} boots`);
    await bootExample(options, deps, step, leave);
    busy(undefined);
    if (options.once) busy(`${vm.name} is deleted`);
    if (options.once) await deleteExample(options, deps, step, leave);
    else {
      howToReach(options, deps);
      await untilAborted(leave);
    }
  } catch (error) {
    if (!leave.aborted) {
      failure = error;
      say(`failed: ${errorMessage(error)}`);
      for (const line of await diagnose(node.client, paths)) say(line);
    }
  }
  say('stopping: virtual machines shut down first (Ctrl-C again ends everything now)');
  busy('the node stops');
  await haltExample(deps);
  await node.stop({ pods: 'end' });
  busy(undefined);
  step('stopped');
  if (failure === undefined) return;
  throw new NodeError('CHILD_FAILED', errorMessage(failure), { cause: failure });
}

async function bootExample(options: UpOptions, { node }: UpDeps, step: (text: string) => void, leave: AbortSignal) {
  const { paths, exampleFile, env } = options;
  const said = await kubectl(['apply', '-f', exampleFile], { kubeconfig: paths.kubeconfig, env, signal: leave });
  step(`kubectl apply -f ${exampleFile}: ${said.replaceAll('\n', ', ')}`);
  const appliedMs = performance.now();
  const late = within(startTimeoutMs, leave, 'the VM did not run');
  let runningMs = appliedMs;
  for (let isUp = false; !isUp; ) {
    await untilVmiRuns(node.client, { ...vm, onChange: (text) => step(`VM ${vm.name}: ${text}`) }, late);
    runningMs = performance.now();
    isUp = await asksForLogin(paths, within(loginTimeoutMs, leave, 'no login prompt on the serial console'));
    if (!isUp) await sleep(500, late);
  }
  const [running, login] = [runningMs - appliedMs, performance.now() - appliedMs].map((ms) => (ms / 1000).toFixed(1));
  step(`the guest asks for a login (apply → Running ${running} s, apply → login ${login} s)`);
}

/** Nobody but `up` asked for it: `start` must not boot it one day. What its user changed of it is kept. */
async function haltExample({ node, say }: UpDeps): Promise<void> {
  try {
    const found = await getIfThere<VirtualMachine>(node.client, resources.virtualMachines, vm, {
      signal: AbortSignal.timeout(haltTimeoutMs),
    });
    if (found?.spec.runStrategy !== 'Always') return;
    const change = { metadata: { resourceVersion: found.metadata.resourceVersion }, spec: { runStrategy: 'Halted' } };
    await writeIfThere(
      node.client.patch(resources.virtualMachines, vm, change, 'merge', { signal: AbortSignal.timeout(haltTimeoutMs) }),
    );
    say(`VM ${vm.name} is halted: the next \`up\` boots it again, \`start\` does not`);
  } catch (error) {
    say(`VM ${vm.name} could not be halted, the next \`start\` boots it: ${errorMessage(error)}`);
  }
}

/** The agent may be starting, or the end of a console not have come to it. */
const notYet: ReadonlySet<NodeError['code']> = new Set(['NO_CONSOLE', 'AGENT_AWAY', 'AGENT_REFUSED', 'NOT_FOUND']);

/** False: the VMI is said to run, and does not. So it is for a moment after the node was killed together with its VMs. */
async function asksForLogin(paths: NodePaths, signal: AbortSignal): Promise<boolean> {
  try {
    await untilLogin(await openConsole(paths, { ...vm, access: 'take-if-free', replay: true }, signal), signal);
    return true;
  } catch (error) {
    const isSoon = error instanceof NodeError && notYet.has(error.code);
    if (isSoon && !signal.aborted) return false;
    throw error;
  }
}

async function deleteExample(
  options: UpOptions,
  { node, say }: UpDeps,
  step: (text: string) => void,
  leave: AbortSignal,
) {
  const { paths, exampleFile, env } = options;
  const pods = (await Promise.all(node.members.map(podsOf))).flat();
  const inits = pods.flatMap(({ init }) => init ?? []);
  const cgroups = pods.flatMap(({ cgroup }) => cgroup ?? []);
  const namespaces = new Set<string>();
  for (const { pid } of inits) {
    const namespace = await podNamespaceOf(pid);
    if (namespace) namespaces.add(namespace);
  }
  const beganMs = performance.now();
  const said = await kubectl(['delete', '-f', exampleFile], { kubeconfig: paths.kubeconfig, env, signal: leave });
  await untilVmiGone(node.client, { ...vm, onChange: say }, within(deleteTimeoutMs, leave, 'the VM was not deleted'));
  step(`${said.replaceAll('\n', ', ')} (gone in ${((performance.now() - beganMs) / 1000).toFixed(1)} s)`);
  const links = pods.map(({ uid }) => hostLinkOf(uid));
  const found = await Promise.all(
    node.members.map((member) => findLeftovers(member.paths, namespaces, cgroups, links)),
  );
  const left = [...new Set(found.flat())];
  for (const init of inits) if (await isAlive(init)) left.push(`process 1 of a pod: ${init.pid}`);
  if (left.length > 0) throw new NodeError('LEFTOVERS', `the VM left something behind:\n  ${left.join('\n  ')}`);
  step('nothing is left behind: no processes, files, mounts, links, ghost records');
}

interface PodOnDisk {
  readonly uid: string;
  readonly cgroup: string | undefined;
  readonly init: ProcessIdentity | undefined;
}

async function podsOf({ sandboxes }: StandaloneNode['members'][number]): Promise<PodOnDisk[]> {
  const describe = async (uid: string) => {
    const state = await sandboxes.inspect(uid);
    return { uid, cgroup: sandboxes.cgroupDir(uid), init: state.kind === 'running' ? state.init : undefined };
  };
  return Promise.all((await sandboxes.list()).map(describe));
}

function howToReach({ paths, commandOf }: UpOptions, { node, say }: UpDeps): void {
  say('');
  say(`The node is up: ${node.page}`);
  say('In another terminal:');
  say(`  export KUBECONFIG=${paths.kubeconfig}`);
  say('  kubectl get vmi -w');
  say(`  ${commandOf('ssh')}         (what is below /data stays)`);
  say(`  ${commandOf('console')}     (log in as root, no password; Ctrl-] leaves)`);
  say('Ctrl-C shuts the virtual machine down and leaves; its object stays, and the next `up` boots it again.');
}

function within(timeoutMs: number, leave: AbortSignal, what: string): AbortSignal {
  const late = new AbortController();
  const timer = setTimeout(
    () => late.abort(new NodeError('TIMEOUT', `${what} within ${timeoutMs / 1000} s`)),
    timeoutMs,
  );
  timer.unref();
  return AbortSignal.any([leave, late.signal]);
}

/** Resolves when the signal aborts. */
export function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

const run = promisify(execFile);

/** Runs the stock kubectl against the node. Gives its output; throws NodeError with what it said. */
async function kubectl(
  args: readonly string[],
  options: {
    readonly kubeconfig: string;
    readonly env: Readonly<Record<string, string | undefined>>;
    readonly signal?: AbortSignal;
  },
): Promise<string> {
  try {
    const env = { ...options.env, KUBECONFIG: options.kubeconfig };
    const { stdout } = await run('kubectl', [...args], { env, signal: options.signal, timeout: 120_000 });
    return stdout.trim();
  } catch (cause) {
    if (errorCode(cause) === 'ENOENT') {
      throw new NodeError('NOT_FOUND', 'kubectl is not on PATH: run `node scripts/setup.mjs up`', { cause });
    }
    const said = typeof cause === 'object' && cause !== null && 'stderr' in cause ? String(cause.stderr).trim() : '';
    throw new NodeError('CHILD_FAILED', `kubectl ${args.join(' ')}: ${said || errorMessage(cause)}`, { cause });
  }
}
