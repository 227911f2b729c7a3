import { accessSync, constants } from 'node:fs';
import path from 'node:path';

/** This process may start the file as a program. */
export function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Debian's for servers is `/usr/sbin`, which is in few services' PATH. */
const places = ['/usr/local/sbin', '/usr/sbin', '/usr/local/bin', '/usr/bin'];

/** A program of the system, wherever PATH points. Undefined: it is not installed. */
export function findSystemProgram(name: string): string | undefined {
  return places.map((place) => path.join(place, name)).find(isExecutable);
}
