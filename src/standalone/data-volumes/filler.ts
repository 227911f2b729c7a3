import path from 'node:path';
import { type KubeObject, type PersistentVolumeClaim, resources } from '../../api/index.ts';
import type { Logger } from '../../base/index.ts';
import { getIfThere, type KubeClient } from '../../kube/index.ts';
import { type Download, shownUrl } from '../disk-images/index.ts';
import { NodeError } from '../errors.ts';
import { diskOfImage, type FillSource, fill } from './fill.ts';
import type { Filling, Fillings } from './fillings.ts';
import { type FillFacts, usersOf } from './observe.ts';
import type { ClaimPlace, ClaimPlaces } from './ports.ts';
import type { Wish } from './wish.ts';

/** Names of directories in `workRoot`, of which none is kept; an older process may have left one. */
const workName = /^\.filling-.+\.new$/;

export interface FillerDeps {
  readonly client: KubeClient;
  readonly places: ClaimPlaces;
  readonly fillings: Fillings;
  /** Images of the node. */
  readonly images: { resolve(reference: string): Promise<string> };
  readonly wake: (key: string) => void;
  readonly log: Logger;
}

interface DataObject extends KubeObject {
  readonly data?: Record<string, string>;
}

/** Does what a DataVolume asks for: reads what that takes of the API, and fills the claim. */
export class Filler {
  readonly #deps: FillerDeps;

  constructor(deps: FillerDeps) {
    this.#deps = deps;
  }

  get client(): KubeClient {
    return this.#deps.client;
  }

  get fillings(): Fillings {
    return this.#deps.fillings;
  }

  workDirectory(claimUid: string): string {
    return path.join(this.#deps.places.workRoot, `.filling-${claimUid}.new`);
  }

  static isWorkDirectory(name: string): boolean {
    return workName.test(name);
  }

  /** Goes on by itself; `fillings` has how far it is. */
  begin({ key, claim, wish, place }: FillFacts): void {
    if (!claim || !wish || place.kind !== 'bound') return;
    this.#run(key, claim, (filling) =>
      this.#sourceOf(wish, key, filling.signal).then((from) => this.#fill(from, claim, place.place, filling)),
    ).catch((error) => this.#deps.log.error({ key, err: error }, 'a claim is not filled'));
  }

  /** What an upload has brought into the work directory. Resolves when `accepted`, or all of it, is done; rejects with what was wrong. */
  async take(
    key: string,
    claim: PersistentVolumeClaim,
    place: ClaimPlace,
    upload: { readonly name: string; readonly until: 'accepted' | 'filled' },
  ): Promise<void> {
    const from = { kind: 'given', name: upload.name, what: 'the upload' } as const;
    await new Promise<void>((resolve, reject) => {
      const accepted = upload.until === 'accepted' ? resolve : undefined;
      this.#run(key, claim, async (filling) => {
        try {
          await this.#fill(from, claim, place, filling, accepted);
          resolve();
        } catch (error) {
          reject(error);
          throw error;
        }
      }).then(() => reject(new NodeError('CLAIM_IN_USE', 'the claim is being filled already')), reject);
    });
  }

  async #run(key: string, claim: PersistentVolumeClaim, work: (filling: Filling) => Promise<void>): Promise<void> {
    const { fillings, wake, log } = this.#deps;
    const end = await fillings.start(key, claim.metadata.uid ?? '', work, () => wake(key));
    log.info({ claim: key, ...end }, 'a claim was filled, or not');
  }

  #fill(from: FillSource, claim: PersistentVolumeClaim, place: ClaimPlace, filling: Filling, accepted?: () => void) {
    const put = async (disk: string) => {
      await this.#requireUnused(claim, filling.signal);
      await this.#deps.places.put(place, disk);
    };
    const work = this.workDirectory(claim.metadata.uid ?? '');
    return fill(from, place, work, filling, { put, ...(accepted && { accepted }) });
  }

  /** At the last moment: the disk of a guest that runs is never replaced. */
  async #requireUnused({ metadata }: PersistentVolumeClaim, signal: AbortSignal): Promise<void> {
    const type = resources.persistentVolumeClaims;
    const claim = await getIfThere<PersistentVolumeClaim>(this.client, type, metadata, { signal });
    if (!claim || claim.metadata.uid !== metadata.uid || claim.metadata.deletionTimestamp) {
      throw new NodeError('NOT_FOUND', `claim ${metadata.name} was deleted while it was filled`);
    }
    const users = await usersOf(this.client, claim, signal);
    if (users.length === 0) return;
    throw new NodeError(
      'CLAIM_IN_USE',
      `claim ${metadata.name} is not filled while it is used by ${users.join(', ')}: stop that`,
    );
  }

  async #sourceOf(wish: Wish, key: string, signal: AbortSignal): Promise<FillSource> {
    switch (wish.kind) {
      case 'blank':
        return { kind: 'blank' };
      case 'registry': {
        const dir = await this.#deps.images.resolve(wish.image);
        return { kind: 'image', file: await diskOfImage(dir, wish.image), what: `image ${wish.image}` };
      }
      case 'http': {
        const [namespace = ''] = key.split('/');
        const download = await this.#downloadOf(wish, namespace, signal);
        return { kind: 'download', wish: download, checksum: wish.checksum, what: shownUrl(wish.url) };
      }
      default:
        throw new NodeError('UNSUPPORTED', `nothing here fills a claim by ${wish.kind}`);
    }
  }

  async #downloadOf(
    wish: Extract<Wish, { kind: 'http' }>,
    namespace: string,
    signal: AbortSignal,
  ): Promise<Omit<Download, 'maxBytes'>> {
    const read = (type: typeof resources.secrets | typeof resources.configMaps, name: string) =>
      this.#read(type, { namespace, name }, signal);
    const secret = wish.secret === undefined ? undefined : await read(resources.secrets, wish.secret);
    const map = wish.authorities === undefined ? undefined : await read(resources.configMaps, wish.authorities);
    const headers = await Promise.all(
      wish.secretHeaders.map(async (name) =>
        Object.values((await read(resources.secrets, name)).data ?? {}).map((one) => decoded(one).trim()),
      ),
    );
    const user = {
      name: decoded(secret?.data?.accessKeyId ?? ''),
      password: decoded(secret?.data?.secretKey ?? ''),
    };
    return {
      url: wish.url,
      headers: [...wish.headers, ...headers.flat()],
      ...(secret && { user }),
      ...(map && { authorities: Object.values(map.data ?? {}).join('\n') }),
    };
  }

  async #read(
    type: typeof resources.secrets | typeof resources.configMaps,
    ref: { readonly namespace: string; readonly name: string },
    signal: AbortSignal,
  ): Promise<DataObject> {
    const found = await getIfThere<DataObject>(this.client, type, ref, { signal });
    if (found) return found;
    throw new NodeError('NOT_FOUND', `there is no ${type.kind} ${ref.namespace}/${ref.name}: create it`);
  }
}

function decoded(base64: string): string {
  return Buffer.from(base64, 'base64').toString('utf8');
}
