import { render } from "preact";
import { App } from "./app";
import { take_from_address } from "./lib/login";
import "./style.css";

void take_from_address().then(() => render(<App />, document.getElementById("app")!));
