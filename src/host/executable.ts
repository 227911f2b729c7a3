import { accessSync, constants } from 'node:fs';

/** This process may start the file as a program. */
export function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
