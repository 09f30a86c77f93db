// A server in node: node --experimental-websocket rpc_server.mjs URL KEY
import * as tilewright from "../tilewright/index.js";
import { offering } from "./rpc_functions.mjs";

const [url, key] = process.argv.slice(2);
const server = new tilewright.RPCServer(url, key, { start: () => offering(tilewright), log: console.log });
process.once("SIGTERM", () => server.stop());
await server.ended.catch((error) => {
  console.log(`${error.name}: ${error.message}`);
  process.exitCode = 1;
});
