import type { Argv } from 'yargs';
import { imageAddFlags, imageListFlags, imageRemoveFlags, stateDir } from './flags.ts';
import type { ImageWish } from './image-add.ts';

/** What `virt-node image …` asks for. */
export type ImageCommand = { readonly stateDir: string } & (
  | ({ readonly command: 'image-add'; readonly force: boolean } & ImageWish)
  | { readonly command: 'images'; readonly quiet: boolean }
  | { readonly command: 'image-info'; readonly reference: string }
  | { readonly command: 'image-remove'; readonly reference: string; readonly force: boolean }
);

/** The commands below `image`. */
export function imageCommands(flags: Argv, choose: (command: ImageCommand) => void): Argv {
  return flags
    .command(
      'add <reference> <source>',
      'put a disk (raw, qcow2, ISO, VMDK, VDI, VHD; by gzip or xz), or a directory of files, on the node as an image',
      (given) =>
        named(given)
          .positional('source', { type: 'string', demandOption: true, describe: 'file, directory, or http(s) address' })
          .options(imageAddFlags),
      ({ reference, source, checksum, force, 'ca-file': caFile, 'state-dir': dir }) =>
        choose({ command: 'image-add', stateDir: dir, reference, source, checksum, caFile, force }),
    )
    .command(
      ['list', 'ls'],
      'list the images of the node: format, size of the disk, room that it takes, when it was added',
      (given) => given.options(imageListFlags),
      (given) => choose({ command: 'images', stateDir: given['state-dir'], quiet: given.quiet }),
    )
    .command(
      'info <reference>',
      'what is known of an image, and which VMs use it',
      (given) => named(given).options(stateDir),
      (given) => choose({ command: 'image-info', stateDir: given['state-dir'], reference: given.reference }),
    )
    .command(
      ['rm <reference>', 'remove'],
      'take an image away that no VM uses',
      (given) => named(given).options(imageRemoveFlags),
      ({ reference, force, 'state-dir': dir }) => choose({ command: 'image-remove', stateDir: dir, reference, force }),
    )
    .demandCommand(1, 'image: add, list, info or rm?');
}

const named = (given: Argv) =>
  given.positional('reference', { type: 'string', demandOption: true, describe: 'the name that VMs use' });
