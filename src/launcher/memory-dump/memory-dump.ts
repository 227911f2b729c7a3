import { type Clock, errorMessage, type Logger, rfc3339 } from '../../base/index.ts';
import { DomainState } from '../../libvirt/index.ts';
import { LauncherError } from '../errors.ts';
import { existingDomain, type Hypervisor } from '../ports.ts';
import { type DumpFile, dumpFileOf, makeRoom } from './dump-file.ts';

export interface MemoryDumpOptions {
  readonly domainName: string;
  /** Where the agent brings volumes. */
  readonly hotplugDir: string;
}

/** What the agent reads of the dump (upstream: api.MemoryDumpMetadata). Times as RFC 3339. */
interface DumpMetadata {
  readonly FileName: string;
  readonly StartTimestamp: string | null;
  readonly EndTimestamp: string | null;
  readonly Completed: boolean;
  readonly Failed: boolean;
  readonly FailureReason: string;
}

export interface MemoryDumpDeps {
  readonly hypervisor: Pick<Hypervisor, 'lookup' | 'state' | 'dumpMemory'>;
  /** Where the agent finds how it went. */
  readonly metadata: {
    readonly metadata: { readonly MemoryDump: Record<string, unknown> | null };
    readonly isDumping: boolean;
    updateMetadata(change: { readonly MemoryDump: Record<string, unknown> }): void;
  };
  /** The file is libvirt's, which may be root; who exports the claim is not, and reads it as QEMU's user. */
  readonly giveToQemu: (file: string) => Promise<void>;
  readonly log: Logger;
  readonly clock: Clock;
}

const { RUNNING, PAUSED } = DomainState;

/**
 * Writes the memory of the guest into a file, in the background (upstream: `MemoryDump` of pkg/virt-launcher/virtwrap/manager.go). The
 * guest stands still meanwhile and goes on afterwards. Answers come by the metadata of the domain.
 */
export class MemoryDump {
  readonly #options: MemoryDumpOptions;
  readonly #deps: MemoryDumpDeps;
  #underWay: Promise<void> | undefined;

  constructor(options: MemoryDumpOptions, deps: MemoryDumpDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  /** A dump that an earlier process of this launcher began has nobody to say how it ended. */
  start(): void {
    const { isDumping, metadata } = this.#deps.metadata;
    if (!isDumping) return;
    this.#tell({
      ...noEnd,
      ...metadata.MemoryDump,
      ...this.#failed('the launcher was started again meanwhile: ask for another dump'),
    });
  }

  /**
   * Begins, and resolves at once; the same file again, or another one while this is under way, changes nothing. Throws INVALID_REQUEST for
   * a path that is none of a volume's, DOMAIN_NOT_FOUND, and INVALID_REQUEST when the guest does not run.
   */
  async begin(dumpPath: string): Promise<void> {
    const dump = dumpFileOf(dumpPath, this.#options.hotplugDir);
    if (this.#underWay || this.#deps.metadata.metadata.MemoryDump?.FileName === dump.name) return;
    const { hypervisor } = this.#deps;
    const domain = await existingDomain(hypervisor, this.#options.domainName);
    const { state } = await hypervisor.state(domain);
    if (state !== RUNNING && state !== PAUSED) {
      throw new LauncherError('INVALID_REQUEST', 'there is no memory to dump: the guest does not run');
    }
    // Another one may have begun while libvirt was asked.
    this.#underWay ??= this.#run(dump).finally(() => {
      this.#underWay = undefined;
    });
  }

  /** Resolves when nothing is under way. */
  async settled(): Promise<void> {
    await this.#underWay;
  }

  async #run(dump: DumpFile): Promise<void> {
    const { hypervisor, log } = this.#deps;
    const begun = { ...noEnd, FileName: dump.name, StartTimestamp: this.#now() };
    this.#tell(begun);
    log.info({ file: dump.file }, 'memory dump begins');
    try {
      await makeRoom(dump);
      await hypervisor.dumpMemory(await existingDomain(hypervisor, this.#options.domainName), dump.file);
      await this.#deps.giveToQemu(dump.file).catch((error: unknown) => {
        const fields = { file: dump.file, reason: errorMessage(error) };
        log.warn(
          fields,
          'the memory dump stays with the user of this process: who exports its claim may not be able to read it',
        );
      });
      this.#tell({ ...begun, EndTimestamp: this.#now(), Completed: true });
      log.info({ file: dump.file }, 'memory dump is complete');
    } catch (error) {
      log.warn({ file: dump.file, err: errorMessage(error) }, 'memory dump failed');
      this.#tell({ ...begun, ...this.#failed(failureReason(error)) });
    }
  }

  #failed(FailureReason: string): Pick<DumpMetadata, 'EndTimestamp' | 'Completed' | 'Failed' | 'FailureReason'> {
    return { EndTimestamp: this.#now(), Completed: false, Failed: true, FailureReason };
  }

  #tell(metadata: DumpMetadata): void {
    this.#deps.metadata.updateMetadata({ MemoryDump: { ...metadata } });
  }

  #now(): string {
    return rfc3339(this.#deps.clock.now());
  }
}

const noEnd: DumpMetadata = {
  FileName: '',
  StartTimestamp: null,
  EndTimestamp: null,
  Completed: false,
  Failed: false,
  FailureReason: '',
};

/** libvirt's text goes into the log; who asked for the dump is told what to do. */
function failureReason(error: unknown): string {
  const text = errorMessage(error);
  if (/No space left on device/i.test(text)) {
    return 'the claim is too small: it needs room for the whole memory of the guest and 100 MiB more; make it larger or use another one';
  }
  if (/Permission denied|Read-only file system/i.test(text)) return `QEMU may not write to the claim: ${text}`;
  return text;
}
