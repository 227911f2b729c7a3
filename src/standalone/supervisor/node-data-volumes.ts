import path from 'node:path';
import { type KubeObject, resources } from '../../api/index.ts';
import { ensureCertificates } from '../../apiserver/index.ts';
import { type Component, type Logger, systemClock } from '../../base/index.ts';
import { EventRecorder, isKubeError, type KubeClient } from '../../kube/index.ts';
import { type ClaimPlaces, DataVolumeController, UploadProxy, UploadTokenKey } from '../data-volumes/index.ts';
import type { NodePaths } from '../paths.ts';
import type { ImageStore } from '../pod-runner/index.ts';
import { freePort } from './free-port.ts';

export interface NodeDataVolumesOptions {
  readonly paths: NodePaths;
  /** Where uploads are taken, a loopback address. */
  readonly host: string;
  /** The node's storage. */
  readonly places: ClaimPlaces;
}

export interface NodeDataVolumesDeps {
  readonly client: KubeClient;
  readonly images: ImageStore;
  readonly log: Logger;
}

/** Far from those of agents (from 18443 on), which listen some time after they were given theirs. */
const usualPort = 18_600;

/** What fills claims on this machine, to be started in this order. */
export async function dataVolumeComponents(
  { paths, host, places }: NodeDataVolumesOptions,
  { client, images, log }: NodeDataVolumesDeps,
): Promise<Component[]> {
  const events = new EventRecorder({ component: 'virt-node-data-volumes' }, { client, log });
  const common = { client, log, clock: systemClock, random: Math.random };
  const controller = new DataVolumeController({ ...common, places, images, events });
  const tls = await ensureCertificates(path.join(paths.apiDir, 'certificates'));
  const port = await freePort([host], usualPort);
  const tokens = new UploadTokenKey(paths.uploadTokenKey);
  const proxy = new UploadProxy({ host, port, tls }, { controller, tokens, clock: systemClock, log });
  const flush = { name: 'events of data volumes', start: async () => undefined, stop: () => events.stop(2_000) };
  return [flush, controller, proxy, announcement(client, `https://${host}:${port}`)];
}

/** Where `virtctl image-upload` looks for the upload proxy, and `virtctl memory-dump --create-claim` for what file systems take: a claim here is a directory with all of its size. */
function announcement(client: KubeClient, uploadProxyURL: string): Component {
  const start = async () => {
    const ref = { name: 'config' };
    const config: KubeObject = { apiVersion: 'cdi.kubevirt.io/v1beta1', kind: 'CDIConfig', metadata: ref };
    await client.create(resources.cdiConfigs, config).catch((error: unknown) => {
      if (!isKubeError(error, 'ALREADY_EXISTS')) throw error;
    });
    const status = { uploadProxyURL, filesystemOverhead: { global: '0' } };
    await client.patch(resources.cdiConfigs, ref, { status }, 'merge', { subresource: 'status' });
  };
  return { name: 'address of the upload proxy', start, stop: async () => undefined };
}
