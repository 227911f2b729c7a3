// A launcher's user swaps whatever appears in its directories while the agent makes a disk image there.
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';

const { directory, victim, victimAsSeen, kind, stopFile, forMs } = JSON.parse(process.env.ATTACK ?? '{}');
const own = path.join(path.dirname(directory), 'own');
const tries = { swapped: 0, refused: 0 };

/** What is put in place of the agent's file. */
const make = {
  link: (name) => symlinkSync(victim, name),
  'hard link': (name) => linkSync(victim, name),
  pipe: (name) => execFileSync('/usr/bin/mkfifo', [name]),
  directory: (name) => mkdirSync(name),
  file: (name) => writeFileSync(name, 'mine'),
};

/** None while the directory is away. */
function entries() {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}

function attempt(work) {
  try {
    work();
    tries.swapped++;
  } catch {
    tries.refused++;
  }
}

/** Whatever appears is replaced, be it a draft or the image itself. */
function swapEntries(round) {
  const prepared = path.join(own, `prepared-${round}`);
  for (const name of entries()) {
    const target = path.join(directory, name);
    attempt(() => {
      // Only what the agent made: a swap of what was swapped already wins nothing.
      if (lstatSync(target).uid === process.getuid() && kind !== 'file') return;
      make[kind](prepared);
      if (kind === 'directory') rmSync(target, { force: true });
      renameSync(prepared, target);
    });
  }
}

/** The directory itself becomes a link to another one, and itself again. */
function swapDirectory(round) {
  const aside = path.join(own, `aside-${round}`);
  attempt(() => {
    renameSync(directory, aside);
    symlinkSync(victimAsSeen, directory);
    rmSync(directory);
    renameSync(aside, directory);
  });
}

mkdirSync(own, { recursive: true });
const endMs = Date.now() + forMs;
for (let round = 0; Date.now() < endMs && !existsSync(stopFile); round++) {
  if (kind === 'path') swapDirectory(round);
  else swapEntries(round);
}
rmSync(own, { recursive: true, force: true });
console.log(JSON.stringify(tries));
