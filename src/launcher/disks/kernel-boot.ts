import path from 'node:path';
import type { VirtualMachineInstance } from '../../api/index.ts';
import { errorMessage } from '../../base/index.ts';
import type { KernelBootFiles } from '../domain/index.ts';
import { linkTo, requireImageRoot, requireMounted } from './container-disk.ts';
import type { DiskEnv } from './env.ts';
import { DiskError } from './errors.ts';
import { resolveFileInRoot } from './image-path.ts';

const field = 'spec.domain.firmware.kernelBoot.container';

/** Finds kernel and initrd in their image (`pkg/container-disk`). */
export async function prepareKernelBoot(
  vmi: VirtualMachineInstance,
  env: DiskEnv,
): Promise<KernelBootFiles | undefined> {
  const container = vmi.spec.domain.firmware?.kernelBoot?.container;
  if (!container) return undefined;
  const { image, kernelPath, initrdPath } = container;
  if (!kernelPath && !initrdPath) {
    throw new DiskError('INVALID_FIELD', `${field}: set kernelPath, initrdPath or both`);
  }
  if (kernelPath && initrdPath && path.basename(kernelPath) === path.basename(initrdPath)) {
    throw new DiskError('INVALID_FIELD', `${field}: kernel and initrd need different file names`);
  }
  if (env.imageVolume) await requireImageRoot(env.paths.kernelBootDir, field, image);
  return {
    ...(kernelPath && { kernelPath: await artefact('kernelPath', kernelPath, image, env) }),
    ...(initrdPath && { initrdPath: await artefact('initrdPath', initrdPath, image, env) }),
  };
}

async function artefact(name: string, asked: string, image: string, env: DiskEnv): Promise<string> {
  const base = path.basename(asked);
  if (base === '' || base === '.' || base === '..') {
    throw new DiskError('INVALID_FIELD', `${field}.${name}: ${JSON.stringify(asked)} names no file`);
  }
  const file = path.join(env.paths.containerDiskDir, 'kernel-boot', base);
  if (!env.imageVolume) {
    await requireMounted(file, `${field}.${name}`);
    return file;
  }
  const found = await resolveFileInRoot(env.paths.kernelBootDir, asked).catch((error: unknown) => {
    const message = `${field}.${name}: the image ${image} has no file ${asked}: ${errorMessage(error)}`;
    throw new DiskError('IMAGE_MISSING', message, { cause: error });
  });
  await linkTo(file, found, env);
  return file;
}
