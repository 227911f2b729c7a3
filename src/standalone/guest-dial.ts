import { connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { guestPortRequest, guestPortsSocket, maxGuestPortsLine, refusalIn } from '../api/index.ts';
import type { GuestReach } from '../apiserver/index.ts';
import { errorMessage } from '../base/index.ts';
import { connectGuestSocket, readFirstLine } from '../host/index.ts';
import type { ProcessIdentity } from './process-identity.ts';

/** Process 1 of a pod of the node with this name; undefined: it does not run on this machine. */
export type ProcessOfPod = (nodeName: string, podUid: string) => Promise<ProcessIdentity | undefined>;

/** Where a connection goes. */
export interface GuestTarget {
  readonly reach: GuestReach;
  readonly port: number;
}

const connectTimeoutMs = 10_000;
/** Longer than the launcher waits for the guest: it has the words. */
const launcherTimeoutMs = 15_000;

/** Connects to TCP ports of guests: at the address of their pods, or by their launchers. */
export class GuestDial {
  readonly #processOf: ProcessOfPod;

  constructor(processOf: ProcessOfPod) {
    this.#processOf = processOf;
  }

  /**
   * Rejects when nothing answers in time, with words for the user, or when the caller has gone. A guest that says no more may still listen: who is given the
   * connection ends its other half.
   */
  async dial(target: GuestTarget, caller: Duplex): Promise<Socket> {
    const { reach, port } = target;
    return reach.kind === 'address' ? dialAddress(reach.address, port, caller) : this.#byLauncher(reach, port, caller);
  }

  async #byLauncher(reach: GuestReach & { kind: 'launcher' }, port: number, caller: Duplex): Promise<Socket> {
    const gone = new AbortController();
    const onGone = () => gone.abort(new Error('the caller has gone'));
    caller.once('close', onGone);
    const signal = AbortSignal.any([gone.signal, AbortSignal.timeout(launcherTimeoutMs)]);
    try {
      const guest = await this.#connect(reach, signal);
      guest.write(`${guestPortRequest(port)}\n`);
      const refusal = await readFirstLine(guest, maxGuestPortsLine, signal).then(refusalIn, errorMessage);
      if (refusal === undefined) return guest;
      guest.destroy();
      throw new Error(refusal);
    } finally {
      caller.off('close', onGone);
    }
  }

  async #connect(
    { nodeName, podUid, vmiUid }: GuestReach & { kind: 'launcher' },
    signal: AbortSignal,
  ): Promise<Socket> {
    const init = await this.#processOf(nodeName, podUid);
    if (!init) throw new Error('the launcher of the guest does not run on this machine');
    const launcher = { pid: init.pid, startTime: init.startTicks, uid: 0 };
    const address = { launcher, directory: vmiUid, name: guestPortsSocket, allowHalfOpen: true };
    return connectGuestSocket(address, signal, '/proc');
  }
}

function dialAddress(address: string, port: number, caller: Duplex): Promise<Socket> {
  const guest = connect({ host: address, port, noDelay: true, keepAlive: true, allowHalfOpen: true });
  return new Promise((resolve, reject) => {
    const end = (why: string) => {
      guest.destroy();
      reject(new Error(`port ${port} of the guest (${address}) does not answer: ${why}`));
    };
    const onGone = () => end('the caller has gone');
    const timer = setTimeout(() => end(`no answer in ${connectTimeoutMs / 1000} s`), connectTimeoutMs);
    const settle = () => {
      clearTimeout(timer);
      caller.off('close', onGone);
    };
    caller.once('close', onGone);
    // Stays: what follows its end has no other reader.
    guest.on('error', (error) => {
      settle();
      end(errorMessage(error));
    });
    guest.once('close', settle);
    guest.once('connect', () => {
      settle();
      resolve(guest);
    });
  });
}
