import { stat } from 'node:fs/promises';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { type Clock, errorMessage, Listeners, type Logger } from '../../../base/index.ts';
import { LibvirtFileError } from '../libvirt-xml/index.ts';
import type { NodeProblem, ProblemSource } from '../ports.ts';
import { DirectoryWatch } from './directory-watch.ts';
import { readCapabilities, readDomainCapabilities, readSupportedFeatures } from './documents.ts';
import { hasCpuModels, type Known, type LabelFacts } from './facts.ts';
import { readIfChanged } from './read-if-changed.ts';
import { readRealtime } from './realtime.ts';

export interface CapabilityFilesOptions {
  /** Where an init container leaves what libvirt says: `/var/lib/kubevirt-node-labeller`. */
  readonly dir: string;
  /** Kubernetes' word for this machine's architecture: `amd64`. */
  readonly arch: string;
  /** Of the kernel's settings: `/proc/sys`. */
  readonly sysctlDir: string;
  /** The files are not promised: one that is not there is no problem, until their directory has been there once. */
  readonly optional: boolean;
  /** A file whose facts are known may be unusable this long, as while the next pod's init container writes it anew; a minute. */
  readonly graceMs?: number;
}

export interface CapabilityFilesDeps {
  readonly log: Logger;
  readonly clock: Clock;
}

/** A file with the facts that were in it when it could last be used. */
interface Source<T> {
  readonly file: string;
  readonly parse: (text: string) => T;
  /** Of the file that `facts` or `problem` came from. */
  identity: string | undefined;
  facts: T | undefined;
  problem: { readonly error: LibvirtFileError; readonly sinceMs: number } | undefined;
}

const files = {
  domain: 'virsh_domcapabilities.xml',
  machine: 'capabilities.xml',
  features: 'supported_features.xml',
} as const;

/** In the names of foreign files, and in Kubernetes' words. */
const foreign: Readonly<Record<string, string>> = { aarch64: 'arm64', x86_64: 'amd64' };

/** The init container knows no others (cmd/virt-launcher/node-labeller/node-labeller.sh). */
const withFiles = new Set(['amd64', 'arm64', 's390x']);

/**
 * What libvirt's capability files say, read again whenever they change. A file that is torn, absurd or gone takes no fact back:
 * the last good ones stay, and the problem is reported. Nothing here throws.
 */
export class CapabilityFiles implements ProblemSource {
  readonly name = 'capability files';
  readonly #options: CapabilityFilesOptions;
  readonly #deps: CapabilityFilesDeps;
  readonly #domain;
  readonly #machine;
  readonly #features;
  readonly #watch: DirectoryWatch;
  readonly #listeners = new Listeners();
  #isPromised: boolean;
  readonly #foreignFiles = new Map<string, { readonly identity: string; readonly isUsable: boolean }>();
  #foreign: readonly string[] | undefined;
  #realtime: Known<boolean>;
  #published: { readonly facts: LabelFacts; readonly problems: readonly NodeProblem[] };
  #cancelGrace: (() => void) | undefined;
  #reading: Promise<void> | undefined;
  #again = false;

  constructor(options: CapabilityFilesOptions, deps: CapabilityFilesDeps) {
    const { arch, dir, sysctlDir } = options;
    this.#options = options;
    this.#deps = deps;
    this.#isPromised = !options.optional;
    this.#domain = source(files.domain, readDomainCapabilities);
    this.#machine = source(files.machine, readCapabilities);
    this.#features = source(files.features, (text) => readSupportedFeatures(text, arch));
    this.#realtime = { kind: 'unknown', because: `${sysctlDir} has not been read yet` };
    this.#published = { facts: this.#facts(), problems: [] };
    this.#watch = new DirectoryWatch({ dir }, { clock: deps.clock, onChange: () => void this.read() });
  }

  /** Resolves when the files have been read once; they are watched from then on. */
  async start(): Promise<void> {
    this.#watch.start();
    await this.read();
  }

  async stop(): Promise<void> {
    this.#watch.stop();
    await this.#reading;
    this.#cancelGrace?.();
  }

  /** As of the last look at all files. */
  facts(): LabelFacts {
    return this.#published.facts;
  }

  problems(): readonly NodeProblem[] {
    return this.#published.problems;
  }

  #facts(): LabelFacts {
    return {
      arch: this.#options.arch,
      domain: this.#known(this.#domain),
      machine: this.#known(this.#machine),
      features: this.#known(this.#features),
      foreignArchs: this.#foreign
        ? { kind: 'known', value: this.#foreign, from: 'virsh_domcapabilities_<architecture>.xml' }
        : { kind: 'unknown', because: `${this.#options.dir} has not been read yet` },
      realtime: this.#realtime,
    };
  }

  #problems(): readonly NodeProblem[] {
    const { dir } = this.#options;
    return this.#required.flatMap(({ file, problem, facts }) => {
      if (!problem || (!this.#isPromised && problem.error.code === 'MISSING')) return [];
      if (this.#graceLeftMs(problem.sinceMs, facts) > 0) return [];
      const kept = facts === undefined ? '' : '; what was read before still counts';
      return [
        {
          source: 'libvirt-files' as const,
          reason: problem.error.code === 'MISSING' ? 'CapabilityFileMissing' : 'CapabilityFileUnusable',
          message: `${path.join(dir, file)}: ${problem.error.message}${kept}: the init container of the agent's pod, or virt-node, writes it at its next start`,
          sinceMs: problem.sinceMs,
        },
      ];
    });
  }

  /** Called when facts or problems have become others; the returned function ends it. */
  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener);
  }

  /** Looks at everything once more. What is asked for meanwhile is looked at after it. */
  read(): Promise<void> {
    this.#again = true;
    this.#reading ??= this.#readAll().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  get #required(): readonly Source<unknown>[] {
    const { arch } = this.#options;
    if (!withFiles.has(arch)) return [];
    return [this.#domain, this.#machine, ...(hasCpuModels(arch) ? [this.#features] : [])];
  }

  async #readAll(): Promise<void> {
    while (this.#again) {
      this.#again = false;
      this.#watch.follow();
      this.#isPromised ||= await isDirectory(this.#options.dir);
      for (const one of this.#required) await this.#readOne(one);
      this.#foreign = await this.#readForeign();
      this.#realtime = await readRealtime(this.#options.sysctlDir);
    }
    this.#publish();
  }

  async #readOne<T>(one: Source<T>): Promise<void> {
    const { log, clock } = this.#deps;
    try {
      const text = await readIfChanged(path.join(this.#options.dir, one.file), one.identity);
      if (text === undefined) return;
      one.identity = text.identity;
      one.facts = one.parse(text.content);
      if (one.problem) log.info({ file: one.file }, 'a capability file can be used again');
      one.problem = undefined;
    } catch (cause) {
      const error = cause instanceof LibvirtFileError ? cause : new LibvirtFileError('UNREADABLE', errorMessage(cause));
      if (error.code === 'MISSING' || error.code === 'UNREADABLE') one.identity = undefined;
      if (one.problem?.error.message !== error.message) {
        const fields = { file: one.file, code: error.code, reason: error.message };
        log[!this.#isPromised && error.code === 'MISSING' ? 'info' : 'warn'](
          fields,
          'a capability file cannot be used',
        );
      }
      one.problem = { error, sinceMs: one.problem?.sinceMs ?? clock.monotonicMs() };
    }
  }

  /**
   * The file itself is the proof; upstream ignores one that does not parse. One that is being written anew takes nothing back.
   */
  async #readForeign(): Promise<readonly string[]> {
    const found: string[] = [];
    for (const [name, other] of Object.entries(foreign)) {
      if (other === this.#options.arch) continue;
      if (await this.#isForeignUsable(`virsh_domcapabilities_${name}.xml`)) found.push(other);
    }
    return found;
  }

  async #isForeignUsable(file: string): Promise<boolean> {
    const before = this.#foreignFiles.get(file);
    try {
      const text = await readIfChanged(path.join(this.#options.dir, file), before?.identity);
      if (!text) return before?.isUsable ?? false;
      const isUsable = isDomainCapabilities(text.content) || (before?.isUsable ?? false);
      this.#foreignFiles.set(file, { identity: text.identity, isUsable });
      return isUsable;
    } catch (error) {
      if (!(error instanceof LibvirtFileError) || error.code !== 'MISSING') return before?.isUsable ?? false;
      this.#foreignFiles.delete(file);
      return false;
    }
  }

  #known<T>({ file, facts, problem }: Source<T>): Known<T> {
    if (facts !== undefined) return { kind: 'known', value: facts, from: file };
    return { kind: 'unknown', because: `${file}: ${problem?.error.message ?? 'not read'}` };
  }

  /** Of a file whose facts are known; 0 for one whose facts are not. */
  #graceLeftMs(sinceMs: number, facts: unknown): number {
    if (facts === undefined) return 0;
    return Math.max(0, sinceMs + (this.#options.graceMs ?? defaultGraceMs) - this.#deps.clock.monotonicMs());
  }

  #publish(): void {
    this.#cancelGrace?.();
    const leftMs = this.#required.map(({ problem, facts }) =>
      problem ? this.#graceLeftMs(problem.sinceMs, facts) : 0,
    );
    const nextMs = Math.min(...leftMs.filter((ms) => ms > 0));
    if (Number.isFinite(nextMs)) this.#cancelGrace = this.#deps.clock.schedule(nextMs, () => this.#publish());
    const now = { facts: this.#facts(), problems: this.#problems() };
    if (isDeepStrictEqual(now, this.#published)) return;
    this.#published = now;
    this.#listeners.notify();
  }
}

function isDomainCapabilities(text: string): boolean {
  try {
    readDomainCapabilities(text);
    return true;
  } catch {
    return false;
  }
}

async function isDirectory(directory: string): Promise<boolean> {
  return stat(directory).then(
    (found) => found.isDirectory(),
    () => false,
  );
}

const defaultGraceMs = 60_000;

function source<T>(file: string, parse: (text: string) => T): Source<T> {
  return { file, parse, identity: undefined, facts: undefined, problem: undefined };
}
