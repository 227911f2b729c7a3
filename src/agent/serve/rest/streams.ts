import type { Socket } from 'node:net';
import type { VirtualMachineInstance } from '../../../api/index.ts';
import { errorMessage, memberAt } from '../../../base/index.ts';
import {
  type Access,
  defaultStreamOptions,
  isView,
  type StreamKind,
  StreamRefusal,
  type StreamRequest,
} from '../../../console/index.ts';
import { connectGuestSocket, GuestSocketError } from '../../../host/index.ts';
import type { Answer } from './answers.ts';
import type { Call } from './call.ts';
import { badRequest, RestError } from './errors.ts';
import type { LauncherActions } from './ports.ts';
import { readSerialLog } from './serial-log.ts';
import type { UsbSlots } from './usb-slots.ts';

/** What a console shows of the time before it. */
const pastBytes = defaultStreamOptions.scrollbackBytes;
const pastTimeoutMs = 2_000;

type Handler = (call: Call) => Answer;

export interface StreamDeps {
  readonly actions: LauncherActions;
  readonly slots: UsbSlots;
  readonly procDir: string;
}

/** Routes that become a websocket. Nothing is opened here: a request that is no upgrade must touch neither guest nor session. */
export function streamHandlers(deps: StreamDeps) {
  return {
    console: (call) => {
      if (device(call.vmi, 'autoattachSerialConsole') === false)
        throw noDevice('serial console', 'autoattachSerialConsole: false');
      const opened = stream(call, 'console', (signal) => connectTo(call.vmi, 'virt-serial0', deps, signal));
      return { ...opened, stream: { ...opened.stream, past: () => pastOf(call.vmi, deps) } };
    },
    vnc: (call) => {
      if (device(call.vmi, 'autoattachGraphicsDevice') === false)
        throw noDevice('screen', 'autoattachGraphicsDevice: false');
      return stream(call, 'vnc', (signal) => connectTo(call.vmi, 'virt-vnc', deps, signal));
    },
    usbredir: (call) => {
      if (device(call.vmi, 'clientPassthrough') === undefined) throw noDevice('USB channel', 'no clientPassthrough');
      const connect = (signal: AbortSignal) => (slot: number) =>
        connectTo(call.vmi, `virt-usbredir-${slot}`, deps, signal);
      return stream(call, 'usbredir', (signal) => deps.slots.connect(call.vmi.metadata.uid ?? '', connect(signal)));
    },
    vsock,
    portforward: () => {
      throw new RestError(
        'NOT_SUPPORTED',
        'ports are not forwarded by the node agent: virt-api connects to the address of the guest itself',
      );
    },
  } satisfies Record<string, Handler>;
}

function stream(
  { key, vmi, query }: Call,
  kind: StreamKind,
  open: StreamRequest['open'],
): Extract<Answer, { kind: 'stream' }> {
  const wish = streamWish(kind, query);
  return { kind: 'stream', stream: { kind, uid: vmi.metadata.uid ?? '', shown: key, ...wish, open } };
}

/** Upstream's checks of the request come first, so that a wrong one gets the reason (pkg/virt-handler/rest/console.go). */
function vsock({ vmi, query }: Call): never {
  if (device(vmi, 'autoattachVSOCK') !== true) throw noDevice('VSOCK device', 'no autoattachVSOCK');
  const port = query.get('port') ?? '';
  if (!/^\d{1,10}$/.test(port) || Number(port) > 0xffff_ffff)
    throw badRequest('port must be a number from 0 to 4294967295');
  const tls = query.get('tls');
  if (tls !== null && parseGoBool(tls) === undefined) throw badRequest('tls must be true or false');
  if (typeof memberAt(vmi, 'status', 'VSOCKCID') !== 'number') {
    throw new RestError('LAUNCHER_FAILED', 'status.VSOCKCID of the VirtualMachineInstance is missing');
  }
  throw new RestError(
    'NOT_SUPPORTED',
    'VSOCK is not supported by this node agent: Node.js has no AF_VSOCK sockets. Use the network or the serial console.',
  );
}

function device(vmi: VirtualMachineInstance, name: string): unknown {
  return memberAt(vmi, 'spec', 'domain', 'devices', name);
}

function noDevice(what: string, why: string): RestError {
  return badRequest(`the VirtualMachineInstance has no ${what}: there is no such socket (${why})`);
}

/** Whatever keeps the guest's socket from being found is 400 for the client, as upstream's (pkg/virt-handler/rest/console.go). */
async function connectTo(
  vmi: VirtualMachineInstance,
  name: string,
  { actions, procDir }: StreamDeps,
  signal: AbortSignal,
): Promise<Socket> {
  try {
    const { process: launcher } = await actions.connect(vmi, signal);
    return await connectGuestSocket({ launcher, directory: vmi.metadata.uid ?? '', name }, signal, procDir);
  } catch (cause) {
    const code = cause instanceof GuestSocketError && cause.code === 'NOT_TRUSTED' ? 'FAILED' : 'NO_STREAM';
    throw new StreamRefusal(code, 400, errorMessage(cause), { cause });
  }
}

async function pastOf(vmi: VirtualMachineInstance, { actions, procDir }: StreamDeps) {
  const { process: launcher } = await actions.connect(vmi, AbortSignal.timeout(pastTimeoutMs));
  return readSerialLog({ launcher, directory: vmi.metadata.uid ?? '' }, pastBytes, procDir);
}

/** What of a stream's request stands in its query. */
type StreamWish = Pick<StreamRequest, 'access' | 'resume'>;

const accesses: readonly Access[] = ['take', 'take-if-free', 'view', 'view-only'];

/** Throws RestError BAD_REQUEST. Unknown parameters are ignored, as upstream does. */
export function streamWish(kind: StreamKind, query: URLSearchParams): StreamWish {
  return { access: accessOf(kind, query), ...resumeOf(kind, query) };
}

/** `access` is ours and goes before upstream's `preserveSession`, which virt-api always sends for vnc. */
function accessOf(kind: StreamKind, query: URLSearchParams): Access {
  const given = query.get('access');
  if (given !== null) {
    const access = accesses.find((each) => each === given);
    if (!access) throw badRequest(`access must be one of ${accesses.join(', ')}`);
    if (kind === 'usbredir' && isView(access))
      throw badRequest(`a USB channel cannot be shared: access=${access} is not possible`);
    return access;
  }
  const isPreserving = kind === 'vnc' && parseGoBool(query.get('preserveSession') ?? '') === true;
  return isPreserving ? 'take-if-free' : 'take';
}

function resumeOf(kind: StreamKind, query: URLSearchParams): Pick<StreamRequest, 'resume'> {
  const line = query.get('line');
  const from = query.get('from');
  if (line === null && from === null) return {};
  if (kind !== 'console') throw badRequest('only a console can be resumed: line and from are not possible here');
  if (line === null || !/^[A-Za-z0-9._-]{1,64}$/.test(line))
    throw badRequest('line must be the id that was told on attaching');
  if (from === null || !/^\d{1,15}$/.test(from)) throw badRequest('from must be a number of bytes');
  return { resume: { line, from: Number(from) } };
}

/** Go's strconv.ParseBool. */
export function parseGoBool(text: string): boolean | undefined {
  if (/^(1|t|T|true|TRUE|True)$/.test(text)) return true;
  return /^(0|f|F|false|FALSE|False)$/.test(text) ? false : undefined;
}
