// The partition that firmware of EFI boots from: systemd-boot, one kernel, one entry. Made by mtools, so nothing is mounted.
import { fileURLToPath } from 'node:url';
import { run } from './build.mjs';

/** What is made of it is made again when this file changes. */
export const espBuilder = fileURLToPath(import.meta.url);

/**
 * Formats `image` from `offsetMib` on and fills it. `loader`, `kernel` and `initrd` are files of this machine.
 */
export function writeEsp({ image, offsetMib, sizeMib }, { loader, kernel, initrd, title, kernelArgs }) {
  const target = `${image}@@${offsetMib}M`;
  run('mformat', ['-i', target, '-v', 'ESP', '-h', '64', '-s', '32', '-T', String(sizeMib * 2048), '::']);
  run('mmd', ['-i', target, '::/EFI', '::/EFI/BOOT', '::/loader', '::/loader/entries']);
  const copy = (from, to) => run('mcopy', ['-i', target, from, `::${to}`]);
  copy(loader, '/EFI/BOOT/BOOTX64.EFI');
  copy(kernel, '/vmlinuz');
  copy(initrd, '/initrd.img');
  const write = (text, to) => run('mcopy', ['-i', target, '-', `::${to}`], { input: text, stdio: 'pipe' });
  write('timeout 0\n', '/loader/loader.conf');
  const entry = [`title ${title}`, 'linux /vmlinuz', 'initrd /initrd.img', `options ${kernelArgs}`];
  write(`${entry.join('\n')}\n`, '/loader/entries/linux.conf');
}
