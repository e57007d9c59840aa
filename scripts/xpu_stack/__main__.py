from xpu_stack.cli import main

main()
