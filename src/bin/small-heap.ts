import { setFlagsFromString } from 'node:v8';

/**
 * To be imported first: V8's young generation stays at the 2 MB that it begins with. An agent's objects die soon, and V8 would
 * take 32 MB and more for a burst of starts and keep them for ever. A flag on the command line would have to be given by everybody
 * who starts the program; the size itself cannot be changed any more, but how it grows can.
 */
setFlagsFromString('--semi-space-growth-factor=1');
