import type { DomainSpec } from '../../api/index.ts';
import { errorMessage, type Logger } from '../../base/index.ts';
import { DiskError, type DomainRef, DomainState, LifecycleDetail, LifecycleEvent } from '../../libvirt/index.ts';
import { parseDomainXml } from '../domain/index.ts';
import type { AccessCredentials, GuestPoller } from '../guest-agent/index.ts';
import type { DomainNotifier } from '../notify/index.ts';
import type { Hypervisor, HypervisorEvent } from '../ports.ts';
import type { DomainReader } from './domain-reader.ts';
import type { MetadataCache } from './metadata.ts';
import { panicMessage, readPanicInfo } from './panic-log.ts';
import type { QemuWatch } from './qemu-watch.ts';
import { panicReported } from './run-record.ts';

export interface DomainEventsDeps {
  readonly hypervisor: Pick<Hypervisor, 'lookup' | 'state' | 'diskErrors' | 'xml'>;
  readonly notifier: Pick<DomainNotifier, 'trigger' | 'sendEvent'>;
  readonly reader: Pick<DomainReader, 'notePanic'>;
  readonly poller: Pick<GuestPoller, 'agentChanged' | 'guestSuspended' | 'guestResumed'>;
  readonly credentials: Pick<AccessCredentials, 'agentChanged'>;
  readonly qemu: Pick<QemuWatch, 'noteStarted' | 'noteStopped'>;
  readonly metadata: MetadataCache;
  readonly log: Logger;
}

const { NOSTATE, SHUTOFF, CRASHED } = DomainState;
/** No QEMU is left in these; while it shuts down (SHUTDOWN) it still is. */
const endStates: readonly number[] = [NOSTATE, SHUTOFF, CRASHED];

type Lifecycle = Extract<HypervisorEvent, { kind: 'lifecycle' }>;

/** What follows from an event of libvirt (`pkg/virt-launcher/notify-client/client.go`). */
export class DomainEvents {
  readonly #domainName: string;
  readonly #qemuLogFile: string;
  readonly #deps: DomainEventsDeps;
  #hasSeenDomain = false;

  constructor(options: { readonly domainName: string; readonly qemuLogFile: string }, deps: DomainEventsDeps) {
    this.#domainName = options.domainName;
    this.#qemuLogFile = options.qemuLogFile;
    this.#deps = deps;
  }

  /** Metadata or guest facts changed. Before there ever was a domain the agent has no use for them. */
  factsChanged(): void {
    if (this.#hasSeenDomain) this.#deps.notifier.trigger('MODIFIED');
  }

  handle(event: HypervisorEvent): void {
    if (event.kind === 'connected') {
      this.#run('reconnected', () => this.#reconnected());
      return;
    }
    if (event.domain.name !== this.#domainName) return;
    this.#hasSeenDomain = true;
    // A pass of a migration changes nothing that the agent reads.
    if (event.kind === 'migration-pass') return;
    if (event.kind === 'agent') {
      this.#deps.poller.agentChanged(event.connected);
      this.#deps.credentials.agentChanged(event.connected);
    }
    if (event.kind === 'lifecycle') this.#lifecycle(event);
    else this.#deps.notifier.trigger('MODIFIED');
  }

  #lifecycle(event: Lifecycle): void {
    const { notifier, poller, qemu, log } = this.#deps;
    log.info({ event: event.event, detail: event.detail }, 'libvirt lifecycle event');
    switch (event.event) {
      case LifecycleEvent.STARTED:
        qemu.noteStarted();
        break;
      case LifecycleEvent.STOPPED:
        poller.agentChanged(false);
        qemu.noteStopped();
        break;
      case LifecycleEvent.SUSPENDED:
        poller.guestSuspended();
        if (event.detail === LifecycleDetail.SUSPENDED.IOERROR) {
          this.#run('I/O error', () => this.#reportDiskErrors(event.domain));
        }
        break;
      case LifecycleEvent.RESUMED:
        poller.guestResumed();
        break;
      case LifecycleEvent.CRASHED:
        this.#run('panic', () => this.#reportPanic(event.detail));
        return;
    }
    notifier.trigger(isAddition(event) ? 'ADDED' : 'MODIFIED');
  }

  /** Events were missed while the daemon was away: look what became of the domain. */
  async #reconnected(): Promise<void> {
    if (!this.#hasSeenDomain) return;
    const { hypervisor, qemu, notifier } = this.#deps;
    notifier.trigger('MODIFIED');
    const domain = await hypervisor.lookup(this.#domainName);
    const isDown = !domain || endStates.includes((await hypervisor.state(domain)).state);
    if (isDown) qemu.noteStopped();
    else qemu.noteStarted();
  }

  /** A panic that ends the guest is reported once, one that a crash kernel handles each time. */
  async #reportPanic(detail: number): Promise<void> {
    const { metadata, notifier, reader } = this.#deps;
    const isFinal = detail === LifecycleDetail.CRASHED.PANICKED;
    const { run } = metadata.state;
    if (!isFinal || run.kind === 'not-run' || !run.panicReported) {
      if (isFinal) metadata.record(panicReported);
      const info = await readPanicInfo(this.#qemuLogFile);
      reader.notePanic(info);
      notifier.sendEvent({ reason: 'GuestPanicked', type: 'Warning', message: panicMessage(info) });
    }
    notifier.trigger('MODIFIED');
  }

  async #reportDiskErrors(domain: DomainRef): Promise<void> {
    const { hypervisor, notifier } = this.#deps;
    const errors = await hypervisor.diskErrors(domain);
    const volumes = volumesByTarget(await hypervisor.xml(domain));
    for (const { disk, error } of errors) {
      if (error === DiskError.NONE) continue;
      const what = error === DiskError.NO_SPACE ? 'no space left on the device' : 'an I/O error';
      const message = `VM paused due to ${what} on volume ${volumes.get(disk) ?? disk}`;
      notifier.sendEvent({ reason: 'IOerror', type: 'Warning', message });
    }
  }

  #run(what: string, work: () => Promise<void>): void {
    work().catch((error: unknown) =>
      this.#deps.log.warn({ what, err: errorMessage(error) }, 'event not handled in full'),
    );
  }
}

function isAddition({ event, detail }: Lifecycle): boolean {
  if (event === LifecycleEvent.DEFINED) return detail === LifecycleDetail.DEFINED.ADDED;
  return event === LifecycleEvent.STARTED && detail === LifecycleDetail.STARTED.MIGRATED;
}

function volumesByTarget(xml: string): Map<string, string> {
  const { Devices } = parseDomainXml(xml) as Pick<DomainSpec, 'Devices'>;
  return new Map((Devices.Disks ?? []).map(({ Target, Alias }) => [Target.Device, Alias?.Name ?? Target.Device]));
}
